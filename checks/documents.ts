import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, normalize } from 'node:path'

const FOLDERS = ['src', 'test', 'checks', 'migrations', 'docs', 'deploy', 'bench', 'faults', 'fuzz', 'bin']

/** The Markdown files of the repository at `root`, relative to it. The changelog may name what no longer exists. */
export function findDocuments(root: string): string[] {
  const names = [...readdirSync(root), ...FOLDERS.flatMap((folder) => listFiles(root, folder))]
  return names.filter((name) => name.endsWith('.md') && name !== 'CHANGELOG.md').toSorted()
}

/** Every file below `folder`, relative to `root`. */
export function listFiles(root: string, folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !/(^|[/\\])(node_modules|dist)([/\\]|$)/.test(entry.parentPath))
    .map((entry) => normalize(join(entry.parentPath, entry.name)).slice(normalize(join(root, '.')).length))
    .map((path) => path.replaceAll('\\', '/').replace(/^\//, ''))
}

/** The files that a document names and the repository does not have, as `document:line name`. */
export function findMissingFiles(root: string): string[] {
  const files = FOLDERS.flatMap((folder) => listFiles(root, folder))
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

/** What a line names as a file of the repository: paths below its folders, TypeScript files in backticks, and links. */
function namesIn(line: string): string[] {
  const paths = line.matchAll(/`((?:src|test|checks|migrations|docs|deploy|bench|faults|fuzz|bin)\/[\w./-]*\w|[\w./-]+\.(?:test\.)?ts)`/g)
  const links = line.matchAll(/\]\((?!https?:|mailto:|#)([^)#\s]+)/g)
  return [...[...paths].map((match) => match[1] ?? ''), ...[...links].map((match) => `./${match[1]}`)]
}

function isThere(root: string, files: readonly string[], document: string, name: string): boolean {
  if (name.startsWith('./')) return existsSync(join(root, document, '..', name))
  return existsSync(join(root, name)) || files.some((file) => file.endsWith(`/${name}`))
}

/** The decisions that do not begin with one line `We …` after their title, as their file names. */
export function findDecisionsWithoutSentence(root: string): string[] {
  return listFiles(root, 'docs/decisions')
    .filter((path) => /\/\d{4}-[^/]*\.md$/.test(path))
    .filter((path) => !/^# \d+\. .+\n\nWe [^\n]+\.\n(?:\n|$)/.test(readFileSync(join(root, path), 'utf8')))
}
