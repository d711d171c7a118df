import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Conversion } from '../move-in/convert/conversion.ts'
import { type ConvertOptions, findConverter } from '../move-in/convert/convert.ts'
import type { Terminal } from './command.ts'

/** Writes the lines of another shop's export to standard output, for the imports. Status 1 when a record was refused. */
export async function convertFile(
  { err }: Terminal,
  [shop, what, file]: readonly [shop: string, what: string, file: string],
  options: Omit<ConvertOptions, 'now'>,
): Promise<number> {
  const conversion = new Conversion(err)
  const lines = findConverter(shop, what)(file, conversion, { ...options, now: new Date() })
  await pipeline(Readable.from(lines), process.stdout, { end: false })
  const { refused, leftOut } = conversion
  if (refused > 0) err(`${refused} refused`)
  if (leftOut > 0) err(`${leftOut} left out, because the other shop does not sell them`)
  return refused === 0 ? 0 : 1
}
