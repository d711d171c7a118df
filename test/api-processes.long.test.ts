import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import { createServer } from 'node:net'
import { after, test } from 'node:test'
import { onCleanup } from './cleanup.ts'
import { makeDataFolder, serverProcesses, untilNoServer } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { freePorts } from './free-port.ts'
import { listProducts, untilDelivered } from './shopping.ts'
import { runStorefront, type StoreProcess, serve } from './store-process.ts'

const folder = makeDataFolder({ after })
const env = { DATA_DIR: folder.path, LAKE_FLUSH_SECONDS: '1', WEB_CONCURRENCY: '2', LOG_REQUESTS: 'all' }

interface LogLine {
  pid: number
  msg: string
  request_id?: string
  reason?: string
}

/** Calls on connections of their own, each of which the kernel gives to one of the processes. */
async function call(store: StoreProcess, method: string, path: string, { token = '', body = undefined as unknown, key = '' } = {}) {
  const id = randomUUID()
  const headers: Record<string, string> = { 'x-request-id': id, 'content-type': 'application/json' }
  if (token !== '') headers.authorization = `Bearer ${token}`
  if (key !== '') headers['idempotency-key'] = key
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; replayed: boolean; text: string }>()
  const sent = request(`${store.url}${path}`, { method, headers, agent: false }, async (answer) => {
    const text = (await answer.setEncoding('utf8').toArray()).join('')
    resolve({ status: answer.statusCode ?? 0, replayed: answer.headers['idempotency-replayed'] === 'true', text })
  })
  sent.on('error', reject).end(body === undefined ? undefined : JSON.stringify(body))
  const answer = await promise
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the answer holds and asserts on it
  return { ...answer, id, json: (answer.text === '' ? null : JSON.parse(answer.text)) as any }
}

function linesOf(store: StoreProcess): LogLine[] {
  return store.logs as unknown as LogLine[]
}

/** The processes that have logged that they answer. */
function answering(store: StoreProcess): number[] {
  return [...new Set(linesOf(store).flatMap(({ msg, pid }) => (/^Storefront answers/.test(msg) ? [pid] : [])))]
}

async function serveTwo(t: Parameters<typeof serve>[0]): Promise<{ store: StoreProcess; worker: number }> {
  const store = await serve(t, { env })
  const pids = await eventually(async () => answering(store).length === 2 && answering(store), { what: 'two processes that answer' })
  const worker = pids.find((pid) => pid !== store.pid) ?? assert.fail('no second process')
  return { store, worker }
}

/** Waits for the log line of the answer. */
function processOf(store: StoreProcess, id: string): Promise<number> {
  return eventually(async () => linesOf(store).find(({ request_id }) => request_id === id)?.pid ?? false, {
    what: 'the line of the request',
  })
}

/** Waits for a process that answers and is none of these. */
function untilReplaced(store: StoreProcess, ...former: number[]): Promise<number> {
  return eventually(async () => answering(store).find((pid) => pid !== store.pid && !former.includes(pid)) ?? false, {
    what: 'another process',
    timeoutMs: 60_000,
  })
}

/** Waits for the end of a further process, and returns its reason. */
function untilEnded(store: StoreProcess, reason: RegExp): Promise<LogLine> {
  const isEnd = ({ msg, reason: why = '' }: LogLine) => /^a process of the API ended/.test(msg) && reason.test(why)
  return eventually(async () => linesOf(store).find(isEnd) ?? false, { what: `the end for ${reason}`, timeoutMs: 60_000 })
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, 'ESRCH')
    return false
  }
}

test('two processes answer on one port, and an order, its key and its list are the same in both', async (t) => {
  const { store, worker } = await serveTwo(t)
  const email = `${randomUUID()}@example.com`
  const registered = await call(store, 'POST', '/auth/register', { body: { email, password: 'a long enough passphrase' } })
  const token = registered.json.access_token
  const [product = ''] = await listProducts(store.url)
  const order = { token, key: randomUUID(), body: { items: [{ product_id: product, quantity: 1 }] } }
  const seen = new Map<number, Set<string>>()
  let first = ''
  for (let turn = 0; turn < 200 && (seen.size < 2 || [...seen.values()].some(({ size }) => size < 2)); turn++) {
    const placed = await call(store, 'POST', '/orders', order)
    assert.deepEqual([placed.status, placed.replayed], [201, turn > 0])
    first ||= placed.text
    assert.equal(placed.text, first)
    const listed = await call(store, 'GET', '/orders', { token })
    assert.deepEqual(listed.json.data, [JSON.parse(first)])
    for (const [what, { id }] of Object.entries({ placed, listed })) {
      const pid = await processOf(store, id)
      seen.set(pid, (seen.get(pid) ?? new Set()).add(what))
    }
  }
  assert.deepEqual([...seen.keys()].sort(), [store.pid, worker].sort())
  for (const what of seen.values()) assert.deepEqual([...what].sort(), ['listed', 'placed'])
  await untilDelivered(folder.path, [JSON.parse(first).id])

  const ports = linesOf(store).flatMap((line) => ('port' in line ? [Number(line.port)] : []))
  assert.equal(new Set(ports).size, 2)
  for (const port of ports) assert.equal((await fetch(`http://127.0.0.1:${port}/readyz`)).status, 200)

  assert.equal(await store.end('SIGTERM'), 0)
  assert.equal(isRunning(worker), false)
  assert.deepEqual(serverProcesses(folder.path), [])
})

test('a process that is killed is started again, and the others answer meanwhile', async (t) => {
  const { store, worker } = await serveTwo(t)
  process.kill(worker, 'SIGKILL')
  await store.untilLogged(/^a process of the API ended; it is started again with pauses$/)
  assert.equal((await call(store, 'GET', '/products?limit=1')).status, 200)
  const again = await untilReplaced(store, worker)
  await eventually(async () => (await processOf(store, (await call(store, 'GET', '/livez')).id)) === again, { what: 'an answer of it' })
  assert.equal(await store.end('SIGTERM'), 0)
  assert.equal(isRunning(again), false)
})

test('a process whose start fails ends, and is started again', async (t) => {
  const [port, second] = await freePorts(2)
  const taken = createServer().listen(second, '127.0.0.1')
  await once(taken, 'listening')
  onCleanup(t, () => void taken.close())
  const store = await serve(t, { env: { ...env, OPS_PORT: String(port) } })
  await untilEnded(store, /^exit status 1$/)
  taken.close()
  await untilReplaced(store)
  assert.equal(await store.end('SIGTERM'), 0)
})

test('a process that is stopped alone is started again', async (t) => {
  const { store, worker } = await serveTwo(t)
  process.kill(worker, 'SIGTERM')
  await untilEnded(store, /^exit status 0$/)
  await untilReplaced(store, worker)
  assert.equal(await store.end('SIGTERM'), 0)
})

test('a process that cannot be started for want of descriptors is started when there are some', async (t) => {
  const { store, worker } = await serveTwo(t)
  const setLimit = (limit: string) => execFileSync('prlimit', ['--pid', String(store.pid), `--nofile=${limit}:`])
  const before = execFileSync('prlimit', ['--pid', String(store.pid), '--nofile', '--output=SOFT', '--noheadings', '--raw'], {
    encoding: 'utf8',
  }).trim()
  setLimit('20')
  process.kill(worker, 'SIGKILL')
  await untilEnded(store, /EMFILE/)
  setLimit(before)
  await untilReplaced(store, worker)
  assert.equal((await call(store, 'GET', '/products?limit=1')).status, 200)
  assert.equal(await store.end('SIGTERM'), 0)
})

test('a process that hangs is killed and replaced', async (t) => {
  const { store, worker } = await serveTwo(t)
  process.kill(worker, 'SIGSTOP')
  await untilEnded(store, /^no answer for 10 s$/)
  await eventually(async () => !isRunning(worker), { what: 'the end of the process that hangs' })
  await untilReplaced(store, worker)
  assert.equal(await store.end('SIGTERM'), 0)
})

test('when the first process is killed, the others end, and the server with them', async (t) => {
  const { store, worker } = await serveTwo(t)
  await store.end('SIGKILL')
  await eventually(async () => !isRunning(worker), { what: 'the end of the second process' })
  await untilNoServer(folder.path)
})

test('another store cannot share the port', async (t) => {
  const { store } = await serveTwo(t)
  const other = makeDataFolder(t)
  const { port } = new URL(store.url)
  const { status, stderr } = await runStorefront(t, ['serve'], { env: { ...env, DATA_DIR: other.path, PORT: port, OPS_PORT: 'off' } })
  assert.deepEqual(
    [status, stderr],
    [1, `storefront: cannot listen on 127.0.0.1, port ${port}: another process has that port; set PORT to another one\n`],
  )
  assert.equal(await store.end('SIGINT'), 0)
})
