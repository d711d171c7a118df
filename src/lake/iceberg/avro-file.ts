import { Readable } from 'node:stream'
import type { Schema } from 'avsc'

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
    const decoder = new avro.streams.BlockDecoder({ readerSchema: schema as object })
    decoder.on('data', (record: T) => records.push(record))
    const ended = new Promise<void>((resolve, reject) => decoder.on('end', resolve).on('error', reject))
    Readable.from([Buffer.from(bytes)]).pipe(decoder)
    await ended
  } catch (error) {
    throw new AvroDamaged(error instanceof Error ? error.message : String(error))
  }
  return records
}
