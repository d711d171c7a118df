import { open, readFile } from 'node:fs/promises'
import { WrongFile } from './conversion.ts'

/** `key` is the list in an API answer, and `members` are properties of its first record. */
export interface ExpectedFile {
  key: string
  members: readonly string[]
  expected: string
}

type JsonRecord = Record<string, unknown>

/** JSON Lines of records, lists or API answers, or one JSON text. Throws WrongFile when a member is missing. */
export async function* readJsonRecords<T>(file: string, { key, members, expected }: ExpectedFile): AsyncGenerator<T> {
  let isFirst = true
  for await (const record of parseRecords(file, key, expected)) {
    const missing = members.filter((name) => record?.[name] === undefined)
    if (isFirst && missing.length > 0) throw new WrongFile(`${file}: its first record lacks ${missing.join(', ')}; expected ${expected}`)
    isFirst = false
    yield record as T
  }
}

async function* parseRecords(file: string, key: string, expected: string): AsyncGenerator<JsonRecord | null> {
  const noJson = () => new WrongFile(`${file} is no JSON; expected ${expected}`)
  let isWhole = false
  try {
    // An error of opening would otherwise bypass the loop.
    const lines = (await open(file)).readLines({ encoding: 'utf8' })
    for await (const line of lines) {
      if (line.trim() === '') continue
      const value = parse(line)
      isWhole = value === undefined
      if (isWhole) break
      yield* recordsOf(value, key)
    }
  } catch (error) {
    throw asUnreadable(error, file, expected)
  }
  if (!isWhole) return
  const value = parse(await readFile(file, 'utf8'))
  if (value === undefined) throw noJson()
  yield* recordsOf(value, key)
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

function recordsOf(value: unknown, key: string): JsonRecord[] {
  if (Array.isArray(value)) return value
  const list = (value as JsonRecord | null)?.[key]
  return Array.isArray(list) ? list : [value as JsonRecord]
}
