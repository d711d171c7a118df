import assert from 'node:assert/strict'
import { open, readdir } from 'node:fs/promises'
import { pathToFileURL } from 'node:url'
import { icebergMetadata, icebergRead } from 'icebird'
import { type Cleanup, onCleanup } from './cleanup.ts'
import type { TestLake } from './lake-stores.ts'

type Row = Record<string, unknown>
type ReadLake = Pick<TestLake, 'pathOf'> & { store: Pick<TestLake['store'], 'locate'> }

/**
 * The rows of a table as icebird reads them, an independent reader of Iceberg. It only speaks HTTP, so its requests
 * are answered from the files, past the store. `snapshotId`: reads an earlier snapshot.
 */
export async function readWithIcebird(lake: ReadLake, table: string, snapshotId?: number): Promise<Row[]> {
  const root = lake.store.locate('x').slice(0, -1)
  const tableUrl = root.startsWith('s3://') ? `${root}iceberg/${table}` : `file://${root}iceberg/${table}`
  const [, bucket = '', prefix = ''] = /^s3:\/\/([^/]+)\/(.*)$/.exec(root) ?? []
  const start = bucket === '' ? `file://${root}` : `https://${bucket}.s3.amazonaws.com/${prefix}`
  const stop = answerFrom(start, lake.pathOf)
  try {
    const metadata = await icebergMetadata({ tableUrl, metadataFileName: await newestMetadata(lake, table) })
    if (snapshotId !== undefined) metadata['current-snapshot-id'] = snapshotId
    // A new lake, which icebird takes for a fault.
    const current = metadata.snapshots?.find((snapshot) => snapshot['snapshot-id'] === metadata['current-snapshot-id'])
    if (current?.summary['total-data-files'] === '0') return []
    return await icebergRead({ tableUrl, metadata })
  } finally {
    stop()
  }
}

/** The hint may be late after a kill. */
async function newestMetadata({ pathOf }: Pick<TestLake, 'pathOf'>, table: string): Promise<string> {
  const names = await readdir(pathOf(`iceberg/${table}/metadata`)).catch(() => [])
  const versions = names.flatMap((name) => /^v(\d+)\.metadata\.json$/.exec(name)?.[1] ?? []).map(Number)
  return `v${versions.reduce((newest, version) => Math.max(newest, version), 0)}.metadata.json`
}

type PathOf = TestLake['pathOf']

/**
 * The lakes that are being read, by the beginning of the addresses that icebird asks for: a process may read several
 * at once, and one twice.
 */
const reading = new Map<string, PathOf[]>()
let original: typeof fetch | null = null

function answerFrom(start: string, pathOf: PathOf): () => void {
  reading.set(start, [...(reading.get(start) ?? []), pathOf])
  if (original === null) {
    original = globalThis.fetch
    globalThis.fetch = fetchFromLakes
  }
  return () => {
    const others = (reading.get(start) ?? []).slice(1)
    if (others.length > 0) reading.set(start, others)
    else reading.delete(start)
    if (reading.size > 0 || original === null) return
    globalThis.fetch = original
    original = null
  }
}

const fetchFromLakes: typeof fetch = async (input, init) => {
  const url = String(input)
  const [start, [pathOf] = []] = [...reading].find(([beginning]) => url.startsWith(beginning)) ?? ['']
  if (pathOf !== undefined) return answer(pathOf(url.slice(start.length)), new Headers(init?.headers).get('range'))
  if (/^file:|\.amazonaws\.com\//.test(url)) throw new Error(`icebird asks for ${url}, which is not in the lake`)
  // Requests by other code in this process.
  return (original ?? fetch)(input, init)
}

async function answer(path: string, range: string | null): Promise<Response> {
  try {
    await using file = await open(path)
    const bytes = await file.readFile()
    const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(range ?? '') ?? []
    if (first === undefined) return new Response(new Uint8Array(bytes))
    const end = last === undefined || last === '' ? bytes.length : Number(last) + 1
    return new Response(new Uint8Array(bytes.subarray(Number(first), end)), { status: 206 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return new Response(`${pathToFileURL(path)} is missing`, { status: 404 })
  }
}

/**
 * Reads these tables of events again and again: each time without a double, and with every event that it had before.
 * Returns a function that ends it and returns the number of reads. `fetch` of this process is icebird's meanwhile.
 */
export function watchEvents(t: Cleanup, lake: Pick<TestLake, 'store' | 'pathOf'>, tables = ['order_events']): () => Promise<number> {
  let [isWatching, reads] = [true, 0]
  const seen = new Map<string, Set<string>>()
  const watching = (async () => {
    for (let turn = 0; isWatching; turn++) {
      const table = tables[turn % tables.length] ?? ''
      const rows = await readWithIcebird(lake, table).catch((error: Error) => {
        // The table is not there yet, or an expiry ended the snapshot that was being read: a reader gets an error
        // then, and never fewer rows.
        assert.match(error.message, /404|is missing|magic|fetch failed/i)
        return null
      })
      if (rows === null) {
        await new Promise((resolve) => setImmediate(resolve))
        continue
      }
      reads += 1
      const now = new Set(rows.map(({ event_id }) => String(event_id)))
      assert.equal(now.size, rows.length, 'an event is there twice')
      assert.deepEqual(
        [...(seen.get(table) ?? [])].filter((id) => !now.has(id)),
        [],
        'events are gone',
      )
      seen.set(table, now)
    }
  })()
  // The caller gets its failure.
  const ended = watching.catch(() => {})
  onCleanup(t, async () => {
    isWatching = false
    await ended
  })
  return async () => {
    isWatching = false
    await watching
    return reads
  }
}
