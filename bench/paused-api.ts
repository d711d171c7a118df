// Orders, cancellations and /readyz of one API process while another one is paused in a transaction, and while a session holds the same row.
// Options: --seconds 60
import { parseArgs } from 'node:util'
import { openCommitWire } from '../test/commit-wire.ts'
import { eventually } from '../test/eventually.ts'
import { serve } from '../test/store-process.ts'
import { printTable } from './orders/measurement.ts'
import { startStoreProcess } from './orders/store-process.ts'
import { atRate, percentile } from './store-under-load.ts'

const BASE_URL = 'http://localhost:3000'
const SECRET = 'a secret for the benchmark, long enough'
const POOL_SIZE = 10

interface Asked {
  status: number
  ms: number
  id: string
}

export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { seconds: { type: 'string', default: '60' } } })
  const seconds = Number(values.seconds)
  const undo: (() => Promise<void> | void)[] = []
  const store = await startStoreProcess(POOL_SIZE, { BASE_URL })
  try {
    const ask = async (token: string, path: string, items?: object): Promise<Asked> => {
      const began = performance.now()
      const method = path === '/readyz' ? 'GET' : 'POST'
      const headers = { authorization: `Bearer ${token}`, ...(items && { 'content-type': 'application/json' }) }
      const answer = await fetch(`http://127.0.0.1:${store.port}${path}`, {
        method,
        headers,
        ...(items && { body: JSON.stringify({ items }) }),
      })
      const json = (await answer.json()) as { id?: string }
      return { status: answer.status, ms: performance.now() - began, id: json.id ?? '' }
    }
    const [ada, bob] = [await store.register(), await store.register()]
    const { rows } = await store.pool.query<{ id: string }>(
      `with added as (
        insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
        select gen_random_uuid(), 'SKU-' || n, 'A product of the benchmark', 'bench', 1250, 'EUR', true from generate_series(0, 50) as n
        returning id
      )
      insert into inventory (product_id, available) select id, 1000000 from added returning product_id as id`,
    )
    const [locked = '', ...others] = rows.map(({ id }) => id)
    const line = (product_id: string | undefined) => [{ product_id, quantity: 1 }]
    const other = () => others[Math.floor(Math.random() * others.length)]
    const placed: string[] = []
    for (let i = 0; i <= 7 * seconds; i++) placed.push((await ask(ada.token, '/orders', line(locked))).id)

    const measure = async (what: string) => {
      const asked = { others: [] as Asked[], locked: [] as Asked[], cancels: [] as Asked[], ready: [] as Asked[] }
      const at = (perSecond: number, kind: keyof typeof asked, send: () => Promise<Asked>) =>
        atRate(perSecond, seconds, async () => asked[kind].push(await send()))
      await Promise.all([
        at(40, 'others', () => ask(bob.token, '/orders', line(other()))),
        at(5, 'locked', () => ask(ada.token, '/orders', line(locked))),
        at(2, 'cancels', () => ask(ada.token, `/orders/${placed.pop()}/cancel`)),
        at(1, 'ready', () => ask('', '/readyz')),
      ])
      return Object.entries(asked).map(([kind, answers]) => {
        const times = answers.map(({ ms }) => ms)
        const counts = [...Map.groupBy(answers, ({ status }) => status)].map(([status, same]) => `${status}: ${same.length}`)
        return [what, kind, ...[0.5, 0.99, 1].map((share) => percentile(times, share).toFixed(0)), counts.join(', ')]
      })
    }

    const table = await measure('nothing')
    const wire = await openCommitWire({ after: (work) => void undo.push(work) }, store.url, 'commit')
    const env = { DATABASE_URL: wire.url, STOREFRONT_SECRET: SECRET, BASE_URL, ROLES: 'api', OPS_PORT: 'off' }
    const paused = await serve({ after: (work) => void undo.push(work) }, { env })
    wire.holdBackCommits()
    void fetch(`${paused.url}/orders/${placed.pop()}/cancel`, { method: 'POST', headers: { authorization: `Bearer ${ada.token}` } }).catch(
      () => {},
    )
    await eventually(async () => {
      const { rowCount } = await store.pool.query(
        `select from pg_stat_activity where state = 'idle in transaction' and application_name = 'storefront'`,
      )
      return rowCount === 1
    })
    process.kill(paused.pid, 'SIGSTOP')
    table.push(...(await measure('a paused process')))
    process.kill(paused.pid, 'SIGCONT')
    const holder = await store.pool.connect()
    await holder.query('begin')
    await holder.query('select from inventory where product_id = $1 for update', [locked])
    table.push(...(await measure('a session')))
    await holder.query('rollback')
    holder.release()
    console.log(`${seconds} s each; milliseconds`)
    printTable(['row held by', 'asked', 'p50', 'p99', 'max', 'answers'], table)
  } finally {
    for (const work of undo) await work()
    await store.stop()
  }
}
