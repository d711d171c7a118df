import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import mustache from 'mustache'
import { OperatorError } from '../errors.ts'
import { LANGUAGES, type Language } from '../language.ts'
import { buildTemplates, MAIL_TEXTS } from './built-in-templates.ts'

const EXTENSION = '.mustache'
/** The most parts in a template's path, such as `de/account/footer.txt.mustache`. Folder links may be circular. */
const MAX_DEPTH = 3
/** The names in templates of the shop's values, which every mail can use. */
const SHOP_VALUES = ['shop', 'logo_url', 'color', 'on_color', 'contact']
const FORMATS = ['html', 'txt'] as const

/** A template that cannot be used. The message is one line, and names the file. */
export class TemplateError extends OperatorError {
  override readonly name = 'TemplateError'
  override readonly exitStatus = 2
}

/** Mails whose templates are in one folder, and share parts such as the footer. */
export interface MailGroup {
  folder: '' | 'account/'
  kinds: readonly string[]
  /** The values that a template may use. */
  values: readonly string[]
}

/** What mails show of the shop. */
export interface ShopInMails {
  name: string | null
  logoUrl: string | null
  /** A `#` followed by six hexadecimal digits. */
  color: string
  contact: string | null
}

/** The values for a shop without settings. */
export const UNBRANDED: ShopInMails = { name: null, logoUrl: null, color: '#0b5394', contact: null }

export interface RenderedMail {
  subject: string
  text: string
  html: string
}

export interface TemplateReader {
  /**
   * Reads the templates of a group in all languages once, and checks the shop's own files. Returns the function that
   * renders its mails. Throws TemplateError.
   */
  read(group: MailGroup): (kind: string, language: Language, view: object) => RenderedMail
  /** The shop's own files, in any language, from which a mail is made. */
  ownFilesOf(group: MailGroup, kind: string): string[]
}

/** The built-in templates as files from which a shop can start: each path with its text. */
export function builtInFiles(language: Language): [path: string, text: string][] {
  return [...buildTemplates(MAIL_TEXTS[language])].map(([name, text]) => [`${language}/${name}${EXTENSION}`, text])
}

/**
 * Reads the mail templates in `directory`. Missing files, or null for the directory, mean built-in templates. A folder
 * named after a language overrides files for that language: `de/created.txt.mustache` precedes `created.txt.mustache`.
 * Throws TemplateError if the folder does not exist or contains an unknown template.
 */
export function createTemplateReader(directory: string | null, shop = UNBRANDED): TemplateReader {
  const builtIn = byLanguage((language) => buildTemplates(MAIL_TEXTS[language]))
  const names = [...builtIn.en.keys()]
  const own = new Set(directory === null ? [] : listOwn(directory, names))
  const writer = new mustache.Writer()
  const { name, logoUrl, color, contact } = shop
  const ofShop = { shop: name, logo_url: logoUrl, color, on_color: readableOn(color), contact }
  /** The names of the templates of a group in one format, without folder and format. */
  const namesOf = ({ folder }: MailGroup, format: string) =>
    names.flatMap((name) => new RegExp(`^${folder}(\\w+)\\.${format}$`).exec(name)?.[1] ?? [])

  function readFormat(group: MailGroup, format: 'html' | 'txt', language: Language): Readonly<Record<string, string>> {
    const known = namesOf(group, format)
    const partials = known.filter((name) => !group.kinds.includes(name))
    const values = [...group.values, ...SHOP_VALUES, ...(format === 'html' ? ['subject'] : [])]
    const read = (name: string): string => {
      const fullName = `${group.folder}${name}.${format}`
      const file = filesOf(fullName, language).find((path) => own.has(path))
      // Tests check the built-in templates.
      if (directory === null || file === undefined) return builtIn[language].get(fullName) ?? ''
      const path = join(directory, file)
      const text = readFileSync(path, 'utf8')
        .replace(/^\uFEFF/, '')
        .replaceAll('\r\n', '\n')
      check(path, text, values, partials)
      if (format === 'txt' && !partials.includes(name) && !/^.*\S.*\n/.test(text))
        throw new TemplateError(`${path}: the first line must be the subject, and the text must follow it`)
      return text
    }
    return Object.fromEntries(known.map((name) => [name, read(name)]))
  }

  return {
    read(group) {
      const templates = byLanguage((language) => ({ txt: readFormat(group, 'txt', language), html: readFormat(group, 'html', language) }))
      return (kind, language, viewOfKind) => {
        const view = { ...ofShop, ...viewOfKind }
        if (!group.kinds.includes(kind)) throw new Error(`there is no mail for ${kind}`)
        const { txt, html } = templates[language]
        const plain = writer.render(txt[kind] ?? '', view, txt, { escape: String })
        const endOfSubject = plain.indexOf('\n')
        const subject = plain.slice(0, endOfSubject)
        return {
          subject,
          text: `${plain.slice(endOfSubject).trim()}\n`,
          html: writer.render(html[kind] ?? '', { ...view, subject }, html, { escape: mustache.escape }),
        }
      }
    },
    ownFilesOf(group, kind) {
      const isUsed = (name: string) => name === kind || !group.kinds.includes(name)
      const used = FORMATS.flatMap((format) =>
        namesOf(group, format)
          .filter(isUsed)
          .map((name) => `${group.folder}${name}.${format}`),
      )
      const files = new Set(used.flatMap((name) => LANGUAGES.flatMap((language) => filesOf(name, language))))
      return [...files].filter((file) => own.has(file))
    },
  }
}

/** White or black, by the greater contrast (WCAG 2.2). */
function readableOn(color: string): string {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((start) => {
    const part = Number.parseInt(color.slice(start, start + 2), 16) / 255
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
  })
  // At 0.179 both contrasts are equal: that with white, 1.05 / (luminance + 0.05), and that with black, (luminance +
  // 0.05) / 0.05.
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? '#000000' : '#ffffff'
}

function byLanguage<T>(read: (language: Language) => T): Readonly<Record<Language, T>> {
  return Object.fromEntries(LANGUAGES.map((language) => [language, read(language)])) as Record<Language, T>
}

/** The files that a shop may have for a template in a language. The first one that exists is used. */
function filesOf(name: string, language: Language): string[] {
  return [`${language}/${name}${EXTENSION}`, `${name}${EXTENSION}`]
}

/**
 * The shop's own template files, such as `created.txt.mustache`. Throws TemplateError for a file that is no known
 * template.
 */
function listOwn(directory: string, names: readonly string[]): string[] {
  if (!(statSync(directory, { throwIfNoEntry: false })?.isDirectory() ?? false))
    throw new TemplateError(`MAIL_TEMPLATES: ${directory} is not a folder`)
  const files = listFiles(directory, '').filter((name) => name.endsWith(EXTENSION))
  const known = new Set(names.flatMap((name) => LANGUAGES.flatMap((language) => filesOf(name, language))))
  const stranger = files.find((name) => !known.has(name))
  if (stranger === undefined) return files
  throw new TemplateError(
    `${join(directory, stranger)} is no mail template; storefront mail templates FOLDER writes all that there are, each in the folders ${LANGUAGES.join(', ')}`,
  )
}

/**
 * The files in a folder, sorted. Links are followed. Hidden files are skipped, because Kubernetes volumes only link to
 * them.
 */
function listFiles(directory: string, folder: string): string[] {
  const names = readdirSync(join(directory, folder)).filter((name) => !name.startsWith('.'))
  return names.toSorted().flatMap((name) => {
    const path = folder + name
    const isFolder = statSync(join(directory, path), { throwIfNoEntry: false })?.isDirectory() === true
    if (!isFolder) return [path]
    return path.split('/').length < MAX_DEPTH ? listFiles(directory, `${path}/`) : []
  })
}

/** Refuses unknown names. Mustache renders them as nothing, so a misspelt name would leave a gap in every mail. */
function check(path: string, text: string, values: readonly string[], partials: readonly string[]): void {
  for (const { kind, name } of tagsOf(path, text)) {
    const known = kind === '>' ? partials : values
    if (!known.includes(name)) throw new TemplateError(`${path}: {{${kind}${name}}} is not known; there are ${known.join(', ')}`)
  }
}

interface Tag {
  /** `>` for a partial, `#` or `^` for a section, and empty for a value. */
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
