import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { readWithIcebird } from '../test/iceberg-reader.ts'
import type { Broker } from './broker.ts'

/**
 * The expected contents of a store. Reads them only by plain SQL, by icebird in the lake, and from the mail server's
 * own count.
 */
export interface IndependentReport {
  orders: number
  versions: number
  /** Acknowledged changes that are missing from `orders`. */
  ordersLost: number
  topicLost: number
  topicDoubled: number
  mailsLost: number
  /** Failed mails to customers who can be reached. */
  mailsGivenUp: number
  /** Mails that are neither sent nor failed yet. */
  mailsQueued: number
  mailDoubles: number
  lakeLost: number
  lakeDoubles: number
  /** Products whose stock differs from the initial stock minus the sales. */
  wrongStock: number
}

export interface CheckedStore {
  url: string
  /** The topic's broker; null for PostgreSQL. */
  broker: Broker | null
  lake: string
  /** The number of times that each event's mail arrived. */
  taken: ReadonlyMap<string, number>
  /** The stock of each product before the first sale. */
  initialStock: ReadonlyMap<string, number>
  /** The versions of orders whose commit was acknowledged, by order id. */
  acknowledged: ReadonlyMap<string, number>
  /** Users who can never get a mail. */
  unreachable: ReadonlySet<string>
}

/** Checks a store. Shares no code with the store, and none with `storefront verify`. */
export async function checkIndependently({
  url,
  broker,
  lake,
  taken,
  initialStock,
  acknowledged,
  unreachable,
}: CheckedStore): Promise<IndependentReport> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    const read = async (sql: string) => (await client.query(sql)).rows as Record<string, string>[]
    // Later places are read first, because the earlier places must contain everything in them.
    const inLake = await readLakeIds(lake)
    const givenUp = new Set((await read(`select event_id from email_deliveries where status = 'failed'`)).map((row) => row.event_id ?? ''))
    const onTopic =
      broker === null
        ? (await read(`select event ->> 'id' as id from topic_messages`)).map((row) => row.id ?? '')
        : await broker.readEventIds()
    const orders = await read(
      `select id, version, user_id, (
        select string_agg(coalesce(change.entry ->> 'version', change.place::text), ',')
        from jsonb_path_query(status_history, '$[*]') with ordinality as change (entry, place)
      ) as versions
      from orders`,
    )
    const wanted = orders.flatMap(({ id, versions = '' }) => versions.split(',').map((version) => `${id}.${version}`))
    const hopeless = new Set(orders.filter(({ user_id = '' }) => unreachable.has(user_id)).map(({ id }) => id))
    const versions = new Map(orders.map(({ id = '', version }) => [id, Number(version)]))
    const lostFrom = (ids: Iterable<string>) => {
      const found = new Set(ids)
      return wanted.filter((id) => !found.has(id)).length
    }
    return {
      orders: orders.length,
      versions: wanted.length,
      ordersLost: [...acknowledged].reduce((sum, [id, version]) => sum + Math.max(0, version - (versions.get(id) ?? 0)), 0),
      topicLost: lostFrom(onTopic),
      topicDoubled: onTopic.length - new Set(onTopic).size,
      mailsLost: wanted.filter((id) => !taken.has(id) && !givenUp.has(id)).length,
      mailsGivenUp: [...givenUp].filter((id) => !hopeless.has(id.split('.')[0])).length,
      mailsQueued: (await read(`select event_id from email_deliveries where status = 'queued'`)).length,
      mailDoubles: [...taken.values()].reduce((sum, times) => sum + times - 1, 0),
      lakeLost: lostFrom(inLake),
      lakeDoubles: inLake.length - new Set(inLake).size,
      wrongStock: await countWrongStock(read, initialStock),
    }
  } finally {
    await client.end()
  }
}

/** The event ids of the newest snapshot, in the topic's order. */
export async function readLakeIds(lake: string, dataset = 'orders'): Promise<string[]> {
  const table = dataset === 'orders' ? 'order_events' : 'catalogue_events'
  const pathOf = (name: string) => join(lake, name)
  const metadata = pathOf(`iceberg/${table}/metadata`)
  const [first] = existsSync(metadata) ? readdirSync(metadata).filter((name) => name.endsWith('.metadata.json')) : []
  if (first === undefined) return []
  const { location } = JSON.parse(readFileSync(join(metadata, first), 'utf8')) as { location: string }
  const root = location.replace(/^file:\/\//, '').slice(0, -`iceberg/${table}`.length)
  const rows = await readWithIcebird({ store: { locate: (name) => `${root}${name}` }, pathOf }, table)
  return rows.toSorted((a, b) => Number(a.sequence) - Number(b.sequence)).map(({ event_id }) => String(event_id))
}

async function countWrongStock(read: (sql: string) => Promise<Record<string, string>[]>, initial: ReadonlyMap<string, number>) {
  const rows = await read(`
    select product_id, available, coalesce((
      select sum((item ->> 'quantity')::bigint)
      from orders, json_array_elements(items) as item
      where status <> 'cancelled' and (item ->> 'product_id')::uuid = inventory.product_id
    ), 0) as sold
    from inventory`)
  return rows.filter((row) => Number(row.available) !== (initial.get(row.product_id ?? '') ?? 0) - Number(row.sold)).length
}
