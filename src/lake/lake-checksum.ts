import { createHash, type Hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { identifier, type Sql, sql } from '../db/sql.ts'

// The key of the checksum, which is in the file itself and so in every copy. It is computed with zeros in its own
// place: docs/decisions/lake-files.md#checksums.
const KEY = 'storefront_checksum'
const PREFIX = 'sha256-with-zeros-here:'
const ZEROS = '0'.repeat(64)
const DIGEST = new RegExp(`${PREFIX}([0-9a-f]{64})`)
/** The metadata are near the end of a Parquet file and take some hundred bytes. */
const TAIL_BYTES = 4_096

export const WRONG_CHECKSUM = 'its checksum is not that of its bytes'

export function checksumMetadata(): Sql {
  return sql`${identifier(KEY)}: ${PREFIX + ZEROS}`
}

/** The file must have `checksumMetadata`. Syncs it to disk. */
export async function stampChecksum(path: string): Promise<void> {
  await using file = await open(path, 'r+')
  const place = findDigest(await readTail(path))
  if (place === null || place.digest !== ZEROS) throw new Error(`${path} has no room for its checksum`)
  await file.write(await digestOf(path, place.offset), place.offset, 'latin1')
  await file.sync()
}

export async function checkChecksum(path: string): Promise<'right' | 'wrong' | 'none'> {
  const tail = await readTail(path)
  const place = findDigest(tail)
  if (place !== null) return place.digest === (await digestOf(path, place.offset)) ? 'right' : 'wrong'
  // One damaged byte changes the key or the prefix, not both. Such a file must not count as one without a checksum.
  return tail.text.includes(KEY) || tail.text.includes(PREFIX) ? 'wrong' : 'none'
}

interface Tail {
  text: string
  offset: number
}

async function readTail(path: string): Promise<Tail> {
  await using file = await open(path, 'r')
  const { size } = await file.stat()
  const offset = Math.max(size - TAIL_BYTES, 0)
  const bytes = Buffer.alloc(size - offset)
  const { bytesRead } = await file.read(bytes, 0, bytes.length, offset)
  return { text: bytes.toString('latin1', 0, bytesRead), offset }
}

function findDigest({ text, offset }: Tail): { digest: string; offset: number } | null {
  const key = text.lastIndexOf(KEY)
  const found = key === -1 ? null : DIGEST.exec(text.slice(key))
  if (found === null) return null
  return { digest: found[1] ?? '', offset: offset + key + found.index + PREFIX.length }
}

async function digestOf(path: string, offset: number): Promise<string> {
  const hash = createHash('sha256')
  if (offset > 0) await hashRange(hash, path, 0, offset - 1)
  hash.update(ZEROS)
  await hashRange(hash, path, offset + ZEROS.length)
  return hash.digest('hex')
}

async function hashRange(hash: Hash, path: string, start: number, end?: number): Promise<void> {
  for await (const chunk of createReadStream(path, { start, ...(end === undefined ? {} : { end }) })) hash.update(chunk as Buffer)
}
