// The bytes that an order leaves behind with the whole pipeline at work: in PostgreSQL's log, and on disk by table and
// in the lake. Options: --orders 5000 --detail yes prints the log by table and the growth of each table
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Pool } from '../src/db/pool.ts'
import { withCleanup } from '../test/cleanup.ts'
import { eventually } from '../test/eventually.ts'
import { startChild } from './rig/child.ts'
import { loadHttp } from './rig/load-http.ts'
import { median, table } from './rig/measurement.ts'
import { placing, startWholeStore, type WholeStore } from './rig/whole-store.ts'
import { type Row, readOptions } from './row.ts'

const PER_SECOND = 250
const SELDOM = { timeoutMs: 300_000, pauseMs: 100 }

interface Bytes {
  log: number
  images: number
  row: number
  rowLog: number
  tables: number
  lake: number
}

export async function run(args: string[]): Promise<Row[]> {
  const { rounds, isQuick, more } = readOptions(args, { orders: '', detail: '' })
  const orders = Number(more.orders || (isQuick ? 500 : 3_000))
  const all: Bytes[] = []
  await withCleanup(async (cleanup) => {
    const whole = await startWholeStore(cleanup)
    await whole.store.pool.query('create extension pg_walinspect')
    const client = startChild(cleanup, 'rig/http-load.ts')
    const load = {
      port: whole.running.port,
      status: 201,
      warmUpSeconds: 0,
      seconds: orders / PER_SECOND,
      perSecond: PER_SECOND,
      connections: placing(whole),
    }
    const place = async () => {
      await loadHttp(client, load)
      await untilDone(whole)
    }
    await place()
    for (let round = 0; round < rounds; round++) all.push(await measure(whole, place, more.detail !== '' && round === rounds - 1))
  })
  const of = (value: (bytes: Bytes) => number, floor?: (bytes: Bytes) => number) =>
    all.map((bytes) => ({ value: value(bytes), ...(floor === undefined ? {} : { floor: floor(bytes) }) }))
  const heldAgainst = 'the row of the order itself'
  return [
    {
      work: 'bytes of the log of an order of 3 lines, placed, evented and mailed',
      heldAgainst: 'the log of inserting the row of the order',
      unit: 'bytes',
      rounds: of(
        ({ log, images }) => log - images,
        ({ rowLog }) => rowLog,
      ),
      note: `without images of pages after a checkpoint, which were ${median(all.map(({ images }) => images)).toFixed(0)} bytes more of each order in this run. At ${PER_SECOND} orders/s.`,
    },
    {
      work: 'bytes on disk of an order in PostgreSQL, with its event and mail',
      heldAgainst,
      unit: 'bytes',
      rounds: of(
        ({ tables }) => tables,
        ({ row }) => row,
      ),
      note: 'tables, indexes and TOAST, including space that vacuum can reuse.',
    },
    {
      work: 'bytes on disk of an event in the lake',
      heldAgainst,
      unit: 'bytes',
      rounds: of(
        ({ lake }) => lake,
        ({ row }) => row,
      ),
      note: 'before its files are merged.',
    },
  ]
}

async function untilDone(whole: WholeStore): Promise<void> {
  const isDone = async () => {
    const { orders, mails, inLake } = await whole.progress()
    return mails >= orders && inLake >= orders
  }
  await eventually(isDone, { ...SELDOM, what: 'every order mailed and in the lake' })
}

async function measure(whole: WholeStore, place: () => Promise<void>, isDetailed: boolean): Promise<Bytes> {
  const { pool, lake } = whole.store
  await pool.query('checkpoint')
  const before = {
    position: await logPosition(pool),
    sizes: await tableSizes(pool),
    lake: folderBytes(lake),
    orders: (await whole.progress()).orders,
  }
  await place()
  const position = await logPosition(pool)
  const after = { sizes: await tableSizes(pool), lake: folderBytes(lake), orders: (await whole.progress()).orders }
  const orders = after.orders - before.orders
  const total = await logBetween(pool, before.position, position)
  const grown = [...after.sizes].map(([name, bytes]): [string, number] => [name, (bytes - (before.sizes.get(name) ?? 0)) / orders])
  if (isDetailed) await printDetail(pool, { from: before.position, to: position, orders, grown })
  const { rows } = await pool.query<{ row: number; log: number }>(
    `select (select avg(pg_column_size(newest.*))::float8 from (select * from orders order by number desc limit 500) as newest) as row,
      (select sum(block_data_length + main_data_length)::float8 / count(*)
        from pg_get_wal_block_info($1, $2)
        where relfilenode = pg_relation_filenode('orders') and resource_manager = 'Heap' and record_type like 'INSERT%') as log`,
    [before.position, position],
  )
  return {
    log: total.bytes / orders,
    images: total.images / orders,
    row: rows[0]?.row ?? Number.NaN,
    rowLog: rows[0]?.log ?? Number.NaN,
    tables: grown.reduce((sum, [, bytes]) => sum + bytes, 0),
    lake: (after.lake - before.lake) / orders,
  }
}

async function logPosition(pool: Pool): Promise<string> {
  const { rows } = await pool.query<{ position: string }>('select pg_current_wal_flush_lsn()::text as position')
  return rows[0]?.position ?? ''
}

async function logBetween(pool: Pool, from: string, to: string): Promise<{ bytes: number; images: number }> {
  const { rows } = await pool.query<{ bytes: number; images: number }>(
    'select sum(combined_size)::float8 as bytes, sum(fpi_size)::float8 as images from pg_get_wal_stats($1, $2)',
    [from, to],
  )
  return rows[0] ?? { bytes: Number.NaN, images: Number.NaN }
}

async function tableSizes(pool: Pool): Promise<Map<string, number>> {
  const { rows } = await pool.query<{ name: string; bytes: number }>(
    `select oid::regclass::text as name, pg_total_relation_size(oid)::float8 as bytes from pg_class
    where relkind = 'r' and relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)`,
  )
  return new Map(rows.map(({ name, bytes }) => [name, bytes]))
}

function folderBytes(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0)
}

async function printDetail(
  pool: Pool,
  { from, to, orders, grown }: { from: string; to: string; orders: number; grown: [string, number][] },
): Promise<void> {
  const { rows } = await pool.query<{ relation: string; records: number; bytes: number; images: number }>(
    `select coalesce(class.relname, 'other') as relation, count(*)::float8 as records,
      sum(block_data_length + coalesce(main_data_length, 0))::float8 as bytes, sum(coalesce(block_fpi_length, 0))::float8 as images
    from pg_get_wal_block_info($1, $2) as block
    left join pg_class as class on pg_relation_filenode(class.oid) = block.relfilenode
    group by 1 order by 3 desc`,
    [from, to],
  )
  const each = (value: number) => (value / orders).toFixed(1)
  console.log('The log of an order by relation; records, data and images of pages in bytes, without the head of each record\n')
  console.log(
    table(
      ['relation', 'records', 'bytes', 'images'],
      rows.map((row) => [row.relation, each(row.records), each(row.bytes), each(row.images)]),
    ),
  )
  const most = grown.filter(([, bytes]) => bytes > 0).sort((a, b) => b[1] - a[1])
  console.log(
    table(
      ['table', 'bytes of an order on disk'],
      most.map(([name, bytes]) => [name, bytes.toFixed(0)]),
    ),
  )
}
