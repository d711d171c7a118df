import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { sql } from '../src/db/sql.ts'
import { toDuckDB, withDuckDB } from '../src/lake/lake-database.ts'
import { padSequence } from '../src/lake/lake-names.ts'
import type { TopicMessage } from '../src/topic/topic.ts'

/** The columns of the first release. */
const OLD_ITEM = {
  product_id: 'VARCHAR',
  sku: 'VARCHAR',
  name: 'VARCHAR',
  unit_price_amount: 'BIGINT',
  quantity: 'BIGINT',
  total_amount: 'BIGINT',
}
const OLD_COLUMNS = {
  ...{
    sequence: 'BIGINT',
    event_id: 'VARCHAR',
    event_type: 'VARCHAR',
    event_time: 'TIMESTAMPTZ',
    order_id: 'VARCHAR',
    order_number: 'VARCHAR',
  },
  ...{ version: 'INTEGER', status: 'VARCHAR', previous_status: 'VARCHAR', user_id: 'VARCHAR', currency: 'VARCHAR', total_amount: 'BIGINT' },
  ...{ item_count: 'INTEGER', items: [OLD_ITEM], created_at: 'TIMESTAMPTZ', updated_at: 'TIMESTAMPTZ', ingested_at: 'TIMESTAMPTZ' },
}

/** A file as the first release wrote it: without later columns and without a checksum. Returns its path. */
export async function writeOldFile(
  directory: string,
  messages: readonly TopicMessage[],
  ingestDate = '2026-03-01',
  level = 0,
): Promise<string> {
  const rows = messages.map(({ sequence, event: { id, type, time, data } }) => ({
    ...{ sequence, event_id: id, event_type: type, event_time: time, order_id: data.order.id, order_number: data.order.number },
    ...{ version: data.order.version, status: data.order.status, previous_status: data.previous_status, user_id: data.order.user_id },
    ...{ currency: data.order.total.currency, total_amount: data.order.total.amount, item_count: data.order.items.length },
    items: data.order.items.map(({ product_id, sku, name, unit_price, quantity, total }) => ({
      ...{ product_id, sku, name, unit_price_amount: unit_price.amount, quantity, total_amount: total.amount },
    })),
    ...{ created_at: data.order.created_at, updated_at: data.order.updated_at, ingested_at: `${ingestDate}T12:00:00.000Z` },
  }))
  const [first, last] = [messages[0], messages.at(-1)].map((message) => padSequence(message?.sequence ?? 0))
  const name = `orders/ingest_date=${ingestDate}/${first}-${last}${level === 0 ? '' : `.${level}`}.parquet`
  const path = join(directory, name)
  await mkdir(dirname(path), { recursive: true })
  const structure = JSON.stringify([OLD_COLUMNS])
  await withDuckDB(`${path}.spill`, async (connection) => {
    await connection.run(
      toDuckDB(sql`
      copy (select unnest(row) from (select unnest(from_json(${JSON.stringify(rows)}, ${structure})) as row))
      to ${path} (format parquet, compression zstd, kv_metadata { schema_version: '1', name: ${name} })`),
    )
  })
  return path
}
