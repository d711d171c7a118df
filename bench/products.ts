import { withCleanup } from '../test/cleanup.ts'
import type { BareAnswer } from './catalogue/bare-http.ts'
import { importCatalogue } from './catalogue/import-catalogue.ts'
import { startChild } from './rig/child.ts'
import { loadHttp } from './rig/load-http.ts'
import { gettingConnections } from './rig/shop.ts'
import { openStore } from './rig/store.ts'
import { inTurns, type Row, readOptions } from './row.ts'

const PRODUCTS = 1_000
const CONNECTIONS = 32
const PATH = '/products?limit=20'
// The headers that Node adds itself.
const OWN_HEADERS = new Set(['date', 'connection', 'keep-alive', 'transfer-encoding'])

/**
 * Measures `GET /products`, a page of 20 in memory, as 200 and as 304, beside bare node:http that sends the same bytes
 * and logs nothing. Option: --level
 */
export async function run(args: string[]): Promise<Row[]> {
  const { rounds, isQuick, more } = readOptions(args, { level: 'info' })
  const seconds = isQuick ? 1 : 3
  const rows: Row[] = []
  await withCleanup(async (cleanup) => {
    const store = await openStore(cleanup)
    await importCatalogue(cleanup, store, PRODUCTS)
    const { port } = await store.start('api', { LOG_LEVEL: more.level })
    const page = await fetch(`http://127.0.0.1:${port}${PATH}`, { headers: { 'accept-encoding': 'identity' } })
    const body = await page.text()
    const sent = [...page.headers].filter(([name]) => !OWN_HEADERS.has(name))
    const without = sent.filter(([name]) => name !== 'content-length' && name !== 'content-type')
    const etag = page.headers.get('etag') ?? ''
    const cases: [string, BareAnswer, Record<string, string>][] = [
      ['a warm page', { status: 200, headers: sent.flat(), body }, {}],
      ['304', { status: 304, headers: without.flat(), body: null }, { 'if-none-match': etag }],
    ]
    const client = startChild(cleanup, 'rig/http-load.ts')
    for (const [what, answer, headers] of cases) {
      const bare = await startChild(cleanup, 'catalogue/bare-http.ts').ask<number>(answer)
      const connections = gettingConnections(CONNECTIONS, PATH, headers)
      const load = async (to: number) =>
        (await loadHttp(client, { port: to, status: answer.status, warmUpSeconds: 0.5, seconds, connections })).perSecond
      await load(port)
      await load(bare)
      const turns = await inTurns(
        rounds,
        () => load(port),
        () => load(bare),
      )
      rows.push({
        work: `\`GET /products\`, ${what}, \`LOG_LEVEL=${more.level}\``,
        heldAgainst: 'bare `node:http`, same bytes',
        ...(answer.status === 200 ? { goal: { atLeast: 0.9 } } : {}),
        unit: 'requests/s',
        rounds: turns,
        note: `${CONNECTIONS} connections, ${body.length} bytes. The bare server logs nothing.`,
      })
    }
  })
  return rows
}
