import { findExcess } from '../../http/json-limits.ts'
import { type ByteLine, decode, isBlank } from './byte-lines.ts'
import { type ImportLine, InvalidLine, importLine, readProduct } from './imported-product.ts'

/** Reads newline-delimited JSON, one product a line as `readProduct` describes it. Blank lines are skipped. */
export async function* readNdjson(lines: AsyncIterable<ByteLine>): AsyncGenerator<ImportLine> {
  for await (const line of lines) {
    if (!isBlank(line)) yield importLine(line.line, () => readProduct(parseJson(line.bytes)))
  }
}

function parseJson(bytes: Buffer | null): unknown {
  const text = decode(bytes)
  const excess = bytes === null ? null : findExcess(bytes)
  if (excess !== null) throw new InvalidLine(`the line ${excess}`)
  try {
    return JSON.parse(text)
  } catch {
    // Not V8's own message: it repeats the line, which may hold anything.
    throw new InvalidLine('the line is not valid JSON')
  }
}
