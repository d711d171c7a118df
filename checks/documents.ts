import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, normalize } from 'node:path'

const FOLDERS = ['src', 'client', 'examples', 'test', 'checks', 'migrations', 'docs', 'deploy', 'bench', 'faults', 'fuzz', 'bin']
const DECISIONS = 'docs/decisions'

/**
 * The Markdown files of the repository at `root`, relative to it, without the changelog, which may name what no longer
 * exists.
 */
export function findDocuments(root: string): string[] {
  const names = [...readdirSync(root), ...listFolders(root)]
  return names.filter((name) => name.endsWith('.md') && name !== 'CHANGELOG.md').toSorted()
}

function listFolders(root: string): string[] {
  return FOLDERS.filter((folder) => existsSync(join(root, folder))).flatMap((folder) => listFiles(root, folder))
}

/** Every file below `folder`, relative to `root`. */
export function listFiles(root: string, folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !/(^|[/\\])(node_modules|dist)([/\\]|$)/.test(entry.parentPath))
    .map((entry) => normalize(join(entry.parentPath, entry.name)).slice(normalize(join(root, '.')).length))
    .map((path) => path.replaceAll('\\', '/').replace(/^\//, ''))
}

/** The files that documents name and the repository lacks, as `document:line name`. */
export function findMissingFiles(root: string): string[] {
  const files = listFolders(root)
  return findDocuments(root).flatMap((document) =>
    readFileSync(join(root, document), 'utf8')
      .split('\n')
      .flatMap((line, index) =>
        namesIn(line)
          .filter((name) => !isThere(root, files, document, name))
          .map((name) => `${document}:${index + 1} ${name}`),
      ),
  )
}

/** The repository files that a line names: paths below its folders, TypeScript files in backticks, and links. */
function namesIn(line: string): string[] {
  const paths = line.matchAll(
    /`((?:src|client|examples|test|checks|migrations|docs|deploy|bench|faults|fuzz|bin)\/[\w./-]*\w|[\w./-]+\.(?:test\.)?ts)`/g,
  )
  const links = line.matchAll(/\]\((?!https?:|mailto:|#)([^)#\s]+)/g)
  return [...[...paths].map((match) => match[1] ?? ''), ...[...links].map((match) => `./${match[1]}`)]
}

function isThere(root: string, files: readonly string[], document: string, name: string): boolean {
  if (name.startsWith('./')) return existsSync(join(root, document, '..', name))
  return existsSync(join(root, name)) || files.some((file) => file.endsWith(`/${name}`))
}

/** The decisions with a number in their name, or without a sentence `We ….` of their own after the title. */
export function findDecisionsWithoutSentence(root: string): string[] {
  return listDecisions(root).filter(
    (path) => /\/\d/.test(path) || !/^# .+\n\nWe [^\n]+(?:\n[^\n]+)?\.\n(?:\n|$)/.test(readFileSync(join(root, path), 'utf8')),
  )
}

function listDecisions(root: string): string[] {
  return listFiles(root, DECISIONS).filter((path) => path.endsWith('.md') && !path.endsWith('/README.md'))
}

/**
 * The references to missing decisions or sections, as `file:line reference`, in sources, documents and the changelog. A
 * number, which decisions had once, leads nowhere.
 */
export function findDeadDecisions(root: string): string[] {
  const files = [...readdirSync(root), ...listFolders(root)].filter((path) => /\.(ts|mjs|js|sql|md|ya?ml|sh|vcl)$/.test(path))
  return files.flatMap((file) =>
    readFileSync(join(root, file), 'utf8')
      .split('\n')
      .flatMap((line, index) =>
        [...line.matchAll(/docs\/decisions\/([\w-]+(?:\.md)?)(?:#([\w-]+))?|\bdecisions? \d{2,4}\b/gi)]
          .filter(([, page, anchor]) => page === undefined || !isDecision(join(root, DECISIONS, page), anchor))
          .map(([reference]) => `${file}:${index + 1} ${reference}`),
      ),
  )
}

function isDecision(path: string, anchor: string | undefined): boolean {
  return path.endsWith('.md') && existsSync(path) && (anchor === undefined || hasAnchor(path, anchor))
}

/** The links to missing headings, as `document:line target#anchor`. */
export function findDeadAnchors(root: string): string[] {
  return findDocuments(root).flatMap((document) =>
    readFileSync(join(root, document), 'utf8')
      .split('\n')
      .flatMap((line, index) =>
        [...line.matchAll(/\]\((?!https?:|mailto:)([^)#\s]*)#([^)\s]+)\)/g)]
          .filter(
            ([, target = '', anchor = '']) => !hasAnchor(target === '' ? join(root, document) : join(root, document, '..', target), anchor),
          )
          .map(([, target, anchor]) => `${document}:${index + 1} ${target}#${anchor}`),
      ),
  )
}

/**
 * The comments in shell blocks that an interactive zsh does not skip: those after a command, and those with a quote or
 * a separator.
 */
export function findPastedComments(root: string): string[] {
  return findDocuments(root).flatMap((document) =>
    [...readFileSync(join(root, document), 'utf8').matchAll(/^```(?:sh|bash|console)\n([\s\S]*?)^```/gm)].flatMap(([, block = '']) =>
      block
        .split('\n')
        .filter((line) => /\S\s+#/.test(line) || (/^\s*#/.test(line) && /['"`;&|()<>]/.test(line)))
        .map((line) => `${document}: ${line}`),
    ),
  )
}

/** Whether the document has the anchor. `findMissingFiles` reports missing files. */
function hasAnchor(path: string, anchor: string): boolean {
  return !path.endsWith('.md') || !existsSync(path) || anchorsOf(readFileSync(path, 'utf8')).has(anchor)
}

/** The anchors that GitHub gives to a document's headings. A second heading with the same text gets `-1`. */
function anchorsOf(text: string): Set<string> {
  const anchors = new Map<string, number>()
  const headings = text.replaceAll(/^```[\s\S]*?^```/gm, '').matchAll(/^#{1,6} +(.+?) *$/gm)
  return new Set(
    [...headings].map(([, heading = '']) => {
      const plain = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase()
      const anchor = plain.replaceAll(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-')
      const count = anchors.get(anchor) ?? 0
      anchors.set(anchor, count + 1)
      return count === 0 ? anchor : `${anchor}-${count}`
    }),
  )
}

/** The differences between docs/decisions/README.md and the decisions: lines `+ …` to add and `- …` to remove. */
export function findIndexErrors(root: string): string[] {
  const expected = listDecisions(root)
    .toSorted()
    .map((path) => {
      const [, title = ''] = /^# (.+)/.exec(readFileSync(join(root, path), 'utf8')) ?? []
      return `- [${title}](${path.slice(DECISIONS.length + 1)})`
    })
  const listed = readFileSync(join(root, DECISIONS, 'README.md'), 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('- ['))
  return [
    ...expected.filter((line) => !listed.includes(line)).map((line) => `+ ${line}`),
    ...listed.filter((line) => !expected.includes(line)).map((line) => `- ${line}`),
  ]
}
