import { open, readFile } from 'node:fs/promises'
import { WrongFile } from './conversion.ts'

/** `key` is the list in an API answer, and each of its records has the properties `members`. */
export interface ExpectedFile {
  key: string
  members: readonly string[]
  expected: string
}

type JsonRecord = Record<string, unknown>
interface PlacedRecord {
  record: JsonRecord | null
  /** The line of a JSON Lines file. */
  line: number | null
}

/**
 * JSON Lines of records, lists or API answers, or one JSON text. Throws WrongFile when a record lacks a member, such as
 * the error that an API has answered instead of a page. In Shopify's files, records with `__parentId` are other things.
 */
export async function* readJsonRecords<T>(file: string, { key, members, expected }: ExpectedFile): AsyncGenerator<T> {
  let count = 0
  for await (const { record, line } of parseRecords(file, key, expected)) {
    count++
    const missing = record?.__parentId === undefined ? members.filter((name) => record?.[name] === undefined) : []
    const place = line === null ? `record ${count}` : `line ${line}, record ${count} of the file`
    if (missing.length > 0) throw new WrongFile(`${file}: ${place}, lacks ${missing.join(', ')}; expected ${expected}`)
    yield record as T
  }
  if (count === 0 && (await readFile(file, 'utf8')).trim() === '') throw new WrongFile(`${file} is empty; expected ${expected}`)
}

async function* parseRecords(file: string, key: string, expected: string): AsyncGenerator<PlacedRecord> {
  let [isWhole, line, last] = [false, 0, 0]
  try {
    // An error of opening would otherwise bypass the loop.
    const lines = (await open(file)).readLines({ encoding: 'utf8' })
    for await (const text of lines) {
      line++
      if (text.trim() === '') continue
      const value = parse(text)
      isWhole = value === undefined
      if (isWhole) break
      yield* recordsOf(value, key, line)
      last = line
    }
  } catch (error) {
    throw asUnreadable(error, file, expected)
  }
  if (!isWhole) return
  const value = parse(await readFile(file, 'utf8'))
  if (value === undefined) throw new WrongFile(`${file} is no JSON${last === 0 ? '' : ` on line ${line}`}; expected ${expected}`)
  yield* recordsOf(value, key, null)
}

/** Turns a file system error into WrongFile. Returns other errors unchanged. */
export function asUnreadable(error: unknown, file: string, expected: string): unknown {
  const { syscall, message } = error as NodeJS.ErrnoException
  return syscall === undefined ? error : new WrongFile(`${file} cannot be read: ${message}; expected ${expected}`)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text.replace(/^\ufeff/, ''))
  } catch {
    return undefined
  }
}

function recordsOf(value: unknown, key: string, line: number | null): PlacedRecord[] {
  const list = Array.isArray(value) ? value : (value as JsonRecord | null)?.[key]
  return (Array.isArray(list) ? list : [value]).map((record) => ({ record, line }))
}
