// Orders, cancellations and /readyz of one API process while another is paused in a transaction, and while a session
// holds the same row. Options: --seconds 60
import { parseArgs } from 'node:util'
import { type Cleanup, withCleanup } from '../test/cleanup.ts'
import { openCommitWire } from '../test/commit-wire.ts'
import { eventually } from '../test/eventually.ts'
import { serve } from '../test/store-process.ts'
import { percentile, table } from './rig/measurement.ts'
import { addProducts, registerCustomers } from './rig/shop.ts'
import { openStore } from './rig/store.ts'

interface Asked {
  status: number
  ms: number
  id: string
}

export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { seconds: { type: 'string', default: '60' } } })
  await withCleanup((cleanup) => measureHeldRows(cleanup, Number(values.seconds)))
}

async function measureHeldRows(cleanup: Cleanup, seconds: number): Promise<void> {
  const store = await openStore(cleanup, { isTcp: true })
  const api = await store.start('api')
  const ask = async (token: string, path: string, items?: object): Promise<Asked> => {
    const began = performance.now()
    const method = path === '/readyz' ? 'GET' : 'POST'
    const headers = { authorization: `Bearer ${token}`, ...(items && { 'content-type': 'application/json' }) }
    const answer = await fetch(`http://127.0.0.1:${api.port}${path}`, {
      method,
      headers,
      ...(items && { body: JSON.stringify({ items }) }),
    })
    const json = (await answer.json()) as { id?: string }
    return { status: answer.status, ms: performance.now() - began, id: json.id ?? '' }
  }
  const [ada, bob] = await registerCustomers(api.port, 2)
  if (ada === undefined || bob === undefined) throw new Error('no customers')
  const [locked = '', ...others] = await addProducts(store.pool, 51)
  const line = (product_id: string | undefined) => [{ product_id, quantity: 1 }]
  const other = () => others[Math.floor(Math.random() * others.length)]
  const placed: string[] = []
  for (let i = 0; i <= 7 * seconds; i++) placed.push((await ask(ada.token, '/orders', line(locked))).id)

  const measure = async (what: string) => {
    const asked = { others: [] as Asked[], locked: [] as Asked[], cancels: [] as Asked[], ready: [] as Asked[] }
    const at = (perSecond: number, kind: keyof typeof asked, send: () => Promise<Asked>) =>
      atRate(perSecond, seconds, async () => void asked[kind].push(await send()))
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

  const lines = await measure('nothing')
  const wire = await openCommitWire(cleanup, store.url, 'commit')
  const env = { ...store.settings, DATABASE_URL: wire.url, DATABASE_STREAM_URL: wire.url, ROLES: 'api', OPS_PORT: 'off' }
  const paused = await serve(cleanup, { env })
  wire.holdBackCommits()
  const authorization = `Bearer ${ada.token}`
  void fetch(`${paused.url}/orders/${placed.pop()}/cancel`, { method: 'POST', headers: { authorization } }).catch(() => {})
  await eventually(async () => {
    const { rowCount } = await store.pool.query(
      `select from pg_stat_activity where state = 'idle in transaction' and application_name in ('storefront', 'storefront-orders')`,
    )
    return rowCount === 1
  })
  process.kill(paused.pid, 'SIGSTOP')
  lines.push(...(await measure('a paused process')))
  process.kill(paused.pid, 'SIGCONT')
  const holder = await store.pool.connect()
  await holder.query('begin')
  await holder.query('select from inventory where product_id = $1 for update', [locked])
  lines.push(...(await measure('a session')))
  await holder.query('rollback')
  holder.release()
  console.log(`${seconds} s each; milliseconds`)
  console.log(table(['row held by', 'asked', 'p50', 'p99', 'max', 'answers'], lines))
}

/** Starts `work` `perSecond` times a second, even while earlier calls run, and waits for all. */
async function atRate(perSecond: number, seconds: number, work: () => Promise<void>): Promise<void> {
  const began = performance.now()
  const running: Promise<void>[] = []
  while (running.length < perSecond * seconds) {
    const due = Math.min(perSecond * seconds, Math.floor(((performance.now() - began) / 1000) * perSecond) + 1)
    while (running.length < due) running.push(work())
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await Promise.all(running)
}
