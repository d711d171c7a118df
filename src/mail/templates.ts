import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import mustache from 'mustache'
import { OperatorError } from '../errors.ts'
import { LANGUAGES, type Language } from '../language.ts'

const BUILT_IN = fileURLToPath(new URL('templates', import.meta.url))
const EXTENSION = '.mustache'

/** A template that cannot be used. The message is one line and names the file. */
export class TemplateError extends OperatorError {
  override readonly name = 'TemplateError'
  override readonly exitStatus = 2
}

/** What a template may use. */
export interface TemplateNames {
  values: readonly string[]
  partials: readonly string[]
}

/** Reads one template, such as `created.txt` or `account/header.html`, in a language, and checks one of the shop's. Throws TemplateError. */
export type ReadTemplate = (name: string, names: TemplateNames, language: Language) => string

/**
 * Reads the mail templates of `directory`, and built-in ones where it has no file of that name; null for built-in ones
 * only. A folder named as a language has what that language has of its own: `de/created.txt.mustache` comes before `created.txt.mustache`.
 * Throws TemplateError when the folder does not exist or contains an unknown template.
 */
export function createTemplateReader(directory: string | null): ReadTemplate {
  if (directory !== null) assertOnlyKnown(directory)
  return (name, names, language) => {
    const folders = directory === null ? [BUILT_IN] : [directory, BUILT_IN]
    const files = folders.flatMap((folder) => filesOf(name, language).map((file) => join(folder, file)))
    const path = files.find((file) => existsSync(file)) ?? join(BUILT_IN, `${name}${EXTENSION}`)
    const text = readFileSync(path, 'utf8')
      .replace(/^\uFEFF/, '')
      .replaceAll('\r\n', '\n')
    // Tests check the built-in ones: that took a third of the time in which the application was made.
    if (!path.startsWith(`${BUILT_IN}${sep}`)) check(path, text, names)
    return text
  }
}

/** The files that a template of a language is read from, the first that exists. The built-in English ones are those without a folder. */
export function filesOf(name: string, language: Language): string[] {
  return [`${language}/${name}${EXTENSION}`, `${name}${EXTENSION}`]
}

function assertOnlyKnown(directory: string): void {
  if (!(statSync(directory, { throwIfNoEntry: false })?.isDirectory() ?? false)) throw new TemplateError(`${directory} is not a folder`)
  const shared = listTemplates(BUILT_IN).filter((name) => !LANGUAGES.some((language) => name.startsWith(`${language}/`)))
  const known = new Set([shared, ...LANGUAGES.map((language) => shared.map((name) => `${language}/${name}`))].flat())
  const stranger = listTemplates(directory).find((name) => !known.has(name))
  if (stranger !== undefined)
    throw new TemplateError(
      `${join(directory, stranger)} is no mail template; they are ${shared.join(', ')}, each also in a folder ${LANGUAGES.join(', ')}`,
    )
}

/** The shop's own template files, such as `created.txt.mustache`. `directory` is one that `createTemplateReader` has accepted. */
export function listOwnTemplates(directory: string | null): string[] {
  return directory === null ? [] : listTemplates(directory)
}

function listTemplates(directory: string): string[] {
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' })
  return names
    .map((name) => name.replaceAll(sep, '/'))
    .filter((name) => name.endsWith(EXTENSION))
    .toSorted()
}

/** Mustache renders unknown names as nothing: a misspelt name would leave a gap in every mail. */
function check(path: string, text: string, { values, partials }: TemplateNames): void {
  for (const { kind, name } of tagsOf(path, text)) {
    const known = kind === '>' ? partials : values
    if (!known.includes(name)) throw new TemplateError(`${path}: {{${kind}${name}}} is not known; there are ${known.join(', ')}`)
  }
  // The first line of each text is the subject, except in partials.
  const isMail = path.endsWith(`.txt${EXTENSION}`) && !partials.some((name) => path.endsWith(`${sep}${name}.txt${EXTENSION}`))
  if (isMail && !/^.*\S.*\n/.test(text)) throw new TemplateError(`${path}: the first line must be the subject, and the text must follow it`)
}

interface Tag {
  /** `>` for a partial, `#` or `^` for a section, nothing for a value. */
  kind: string
  name: string
}

function tagsOf(path: string, text: string): Tag[] {
  try {
    return new mustache.Writer().parse(text).flatMap(toTags)
  } catch (error) {
    throw new TemplateError(`${path}: ${(error as Error).message}`, { cause: error })
  }
}

function toTags([kind, name, , , inner]: mustache.TemplateSpans[number]): Tag[] {
  if (kind === 'text' || kind === '!' || kind === '=') return []
  const tag = { kind: kind === 'name' || kind === '&' ? '' : kind, name }
  return Array.isArray(inner) ? [tag, ...inner.flatMap(toTags)] : [tag]
}
