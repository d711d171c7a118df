import { type ByteLine, decode, isBlank } from './byte-lines.ts'
import { type ImportLine, InvalidLine, importLine, readProduct } from './imported-product.ts'

/** Reads newline-delimited JSON, one product a line as `readProduct` describes it. Blank lines are skipped. */
export async function* readNdjson(lines: AsyncIterable<ByteLine>): AsyncGenerator<ImportLine> {
  for await (const line of lines) {
    if (!isBlank(line)) yield importLine(line.line, () => readProduct(parseJson(decode(line.bytes))))
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Not V8's own message: it repeats the line, which may hold anything.
    throw new InvalidLine('the line is not valid JSON')
  }
}
