import { Readable } from 'node:stream'
import type { Schema, Type } from 'avsc'

/** Making a type from a schema costs more than to read a file by it: with these, a commit takes a sixth less. */
const types = new Map<string, Type>()
/** This program writes three schemas, another one that writes to these tables has a few of its own. */
const MAX_TYPES = 16

/** The bytes are no Avro file of the schema, such as half of a file. */
export class AvroDamaged extends Error {
  override readonly name = 'AvroDamaged'
}

export async function encodeAvro(schema: Schema, records: readonly unknown[], metadata: Record<string, string>): Promise<Buffer> {
  const entries = Object.entries(metadata).map(([key, value]) => [key, Buffer.from(value)])
  // The types of the package avsc lack these options.
  const options: object = { writeHeader: 'always', metadata: Object.fromEntries(entries) }
  const { default: avro } = await import('avsc')
  const encoder = new avro.streams.BlockEncoder(schema, options)
  const chunks: Buffer[] = []
  encoder.on('data', (chunk: Buffer) => chunks.push(chunk))
  const ended = new Promise<void>((resolve, reject) => encoder.on('end', resolve).on('error', reject))
  for (const record of records) encoder.write(record)
  encoder.end()
  await ended
  return Buffer.concat(chunks)
}

export async function decodeAvro<T>(schema: Schema, bytes: Uint8Array): Promise<T[]> {
  const { default: avro } = await import('avsc')
  const records: T[] = []
  try {
    const typeOf = (each: Schema): Type => {
      const key = JSON.stringify(each)
      const known = types.get(key)
      if (known !== undefined) return known
      if (types.size >= MAX_TYPES) types.clear()
      const type = avro.Type.forSchema(each)
      types.set(key, type)
      return type
    }
    // The types of the package avsc allow neither a type as the reader's schema nor as the hook's result.
    const decoder = new avro.streams.BlockDecoder({ readerSchema: typeOf(schema) as object, parseHook: typeOf as never })
    decoder.on('data', (record: T) => records.push(record))
    const ended = new Promise<void>((resolve, reject) => decoder.on('end', resolve).on('error', reject))
    Readable.from([Buffer.from(bytes)]).pipe(decoder)
    await ended
  } catch (error) {
    throw new AvroDamaged(error instanceof Error ? error.message : String(error))
  }
  return records
}
