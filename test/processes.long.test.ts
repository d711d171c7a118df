import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { makeDataFolder, serverProcesses, untilNoServer } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { freePorts } from './free-port.ts'
import { listProducts, untilDelivered } from './shopping.ts'
import { startSmtpServer } from './smtp-server.ts'
import { runStorefront, type StoreProcess, serve } from './store-process.ts'

const folder = makeDataFolder({ after })
/** Two processes of the API, and one of the pipeline. */
const env = { DATA_DIR: folder.path, LAKE_FLUSH_SECONDS: '1', WEB_CONCURRENCY: '3', LOG_REQUESTS: 'all' }

interface LogLine {
  level: number
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
  })
}

/** Waits for the end of a further process, and returns its reason. */
function untilEnded(store: StoreProcess, reason: RegExp): Promise<LogLine> {
  const isEnd = ({ msg, reason: why = '' }: LogLine) => /^a process of the store ended/.test(msg) && reason.test(why)
  return eventually(async () => linesOf(store).find(isEnd) ?? false, { what: `the end for ${reason}` })
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
  assert.equal(ports.length, 1)
  assert.equal((await fetch(`http://127.0.0.1:${ports[0]}/readyz`)).status, 200)
  const metrics = await (await fetch(`http://127.0.0.1:${ports[0]}/metrics`)).text()
  const roles = [...metrics.matchAll(/^storefront_roles\{role="(\w+)",process="(\d)"\} 1$/gm)].map(
    ([, role, process]) => `${process} ${role}`,
  )
  assert.deepEqual(roles.sort(), ['1 api', '2 api', '3 email', '3 lake', '3 stream', '3 webhook'])
  for (const process of [1, 2, 3]) {
    assert.match(metrics, new RegExp(`^process_start_time_seconds\\{process="${process}"\\} \\d`, 'm'))
    assert.match(metrics, new RegExp(`^storefront_source_up\\{source="database",process="${process}"\\} 1$`, 'm'))
  }
  const placed = [...metrics.matchAll(/^storefront_orders_(?:placed|replayed)_total\{process="[12]"\} (\d+)$/gm)]
  assert.ok(placed.reduce((sum, [, count]) => sum + Number(count), 0) >= 2)

  assert.equal(await store.end('SIGTERM'), 0)
  assert.equal(isRunning(worker), false)
  assert.deepEqual(serverProcesses(folder.path), [])
})

test('a process that is killed is started again, and the others answer meanwhile', async (t) => {
  const { store, worker } = await serveTwo(t)
  process.kill(worker, 'SIGKILL')
  await store.untilLogged(/^a process of the store ended; it is started again with pauses$/)
  assert.equal((await call(store, 'GET', '/products?limit=1')).status, 200)
  const again = await untilReplaced(store, worker)
  await eventually(async () => (await processOf(store, (await call(store, 'GET', '/livez')).id)) === again, { what: 'an answer of it' })
  assert.equal(await store.end('SIGTERM'), 0)
  assert.equal(isRunning(again), false)
})

test('a process that cannot start at first ends the start, as one process does', async (t) => {
  const { path } = makeDataFolder(t)
  // The API sends no mails, and does not read the file.
  const missing = join(path, 'ca.pem')
  const { status, stderr } = await runStorefront(t, ['serve'], {
    env: { ...env, WEB_CONCURRENCY: '2', DATA_DIR: path, SMTP_URL: 'smtp://127.0.0.1:1', SMTP_CA: missing, EMAIL_VERIFICATION: 'required' },
  })
  assert.deepEqual([status, stderr], [1, `storefront: SMTP_CA: ${missing} cannot be read (ENOENT)\n`])
})

test('a process that cannot start again is named at the operations port of the first, until it can', async (t) => {
  const [port = 0] = await freePorts(1)
  const smtp = await startSmtpServer(t)
  const certificate = join(folder.path, '..', 'authority.pem')
  writeFileSync(certificate, '')
  const store = await serve(t, {
    env: { ...env, WEB_CONCURRENCY: '2', OPS_PORT: String(port), SMTP_URL: smtp.url, SMTP_CA: certificate },
  })
  const ready = async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`)
    return { status: answer.status, failing: ((await answer.json()) as { failing?: object[] }).failing }
  }
  const starting = [{ name: 'process_2', reason: 'process 2 (stream, email, lake, webhook) is starting' }]
  const first = await ready()
  assert.deepEqual([first.status, first.failing], [503, starting])
  const pipeline = await untilPipeline(store)
  await eventually(async () => (await ready()).status === 200, { what: 'ready' })
  rmSync(certificate)
  process.kill(pipeline, 'SIGKILL')
  await untilEnded(store, /^SIGKILL$/)
  const again = await untilEnded(store, /cannot be read \(ENOENT\)$/)
  const { status, failing } = await ready()
  const reason = `process 2 (stream, email, lake, webhook): ${again.reason}`
  assert.deepEqual([status, failing], [503, [{ name: 'process_2', reason }]])
  writeFileSync(certificate, '')
  await eventually(async () => (await ready()).status === 200, { what: 'ready again' })
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

const OPERATOR = { email: 'ops@example.com', password: 'a long enough passphrase' }

async function logInAsAdmin(t: Parameters<typeof serve>[0], store: StoreProcess): Promise<string> {
  const made = await runStorefront(t, ['admin', 'create', OPERATOR.email], { env, input: `${OPERATOR.password}\n` })
  assert.ok(made.status === 0 || /already/.test(made.stderr), made.stderr)
  return (await call(store, 'POST', '/auth/login', { body: OPERATOR })).json.access_token
}

test('each process of the API shows the states of the pipeline', async (t) => {
  const { store, worker } = await serveTwo(t)
  const token = await logInAsAdmin(t, store)
  await untilPipeline(store)
  const shown = new Map<number, string>()
  await eventually(
    async () => {
      const { id, json } = await call(store, 'GET', '/admin/pipeline', { token })
      const states = json.subscribers.map(({ name, state }: { name: string; state: string }) => `${name} ${state}`)
      shown.set(await processOf(store, id), states.toSorted().join())
      return [store.pid, worker].every((pid) => shown.get(pid ?? 0) === 'email active,lake active,webhook active')
    },
    { what: 'the same states in both' },
  )
  assert.equal(await store.end('SIGTERM'), 0)
})

test('a pipeline that is paused is named and down, and the first process answers meanwhile', async (t) => {
  const [port = 0] = await freePorts(1)
  const store = await serve(t, { env: { ...env, WEB_CONCURRENCY: '2', OPS_PORT: String(port) } })
  const token = await logInAsAdmin(t, store)
  const pipeline = await untilPipeline(store)
  const ask = (path: string) => fetch(`http://127.0.0.1:${port}${path}`)
  const statesOf = async () => {
    const { status, json } = await call(store, 'GET', '/admin/pipeline', { token })
    return [status, ...json.subscribers.map(({ state }: { state: string | null }) => state)]
  }
  const up = (process: number, value: number) => new RegExp(`^storefront_process_up\\{process="${process}"\\} ${value}$`, 'm')
  await eventually(async () => (await ask('/readyz')).status === 200, { what: 'ready' })
  assert.match(await (await ask('/metrics')).text(), up(2, 1))
  process.kill(pipeline, 'SIGSTOP')
  const [ready, metrics, states] = await Promise.all([
    ask('/readyz').then(async (answer) => [answer.status, ((await answer.json()) as { failing?: object[] }).failing]),
    ask('/metrics').then((answer) => answer.text()),
    statesOf(),
  ])
  process.kill(pipeline, 'SIGCONT')
  const reason = 'process 2 (stream, email, lake, webhook) does not answer'
  assert.deepEqual(ready, [503, [{ name: 'process_2', reason }]])
  assert.match(metrics, up(1, 1))
  assert.match(metrics, up(2, 0))
  assert.deepEqual(states, [200, null, null, null])
  await eventually(async () => (await ask('/readyz')).status === 200, { what: 'ready again' })
  assert.match(await (await ask('/metrics')).text(), up(2, 1))
  assert.equal(await store.end('SIGTERM'), 0)
})

/** Waits for a process that has every role of the pipeline and is not the former one. */
function untilPipeline(store: StoreProcess, former?: number): Promise<number> {
  const working = (message: RegExp) => new Set(linesOf(store).flatMap(({ msg, pid }) => (message.test(msg) ? [pid] : [])))
  return eventually(
    async () => {
      const [reading, subscribing] = [working(/^change stream is active/), working(/^subscriber is active/)]
      return [...reading].find((pid) => pid !== former && subscribing.has(pid)) ?? false
    },
    { what: 'the process of the pipeline' },
  )
}

test('the pipeline has a process of its own: killed between orders it is started again, and each order is mailed and in the lake once', async (t) => {
  const store = await serve(t, { env: { ...env, WEB_CONCURRENCY: '2' } })
  const pipeline = await untilPipeline(store)
  assert.notEqual(pipeline, store.pid)
  const { access_token: token } = (
    await call(store, 'POST', '/auth/register', { body: { email: `${randomUUID()}@example.com`, password: 'a long enough passphrase' } })
  ).json
  const [product = ''] = await listProducts(store.url)
  const place = async () => {
    const { status, json } = await call(store, 'POST', '/orders', {
      token,
      key: randomUUID(),
      body: { items: [{ product_id: product, quantity: 1 }] },
    })
    assert.equal(status, 201)
    return json.id as string
  }
  const ids = [await place(), await place()]
  process.kill(pipeline, 'SIGKILL')
  ids.push(await place(), await place())
  await untilEnded(store, /^SIGKILL$/)
  const again = await untilPipeline(store, pipeline)
  ids.push(await place())
  const inLake = await untilDelivered(folder.path, ids)
  for (const id of ids) assert.equal(inLake.filter((eventId) => eventId === `${id}.1`).length, 1)
  assert.deepEqual(answering(store), [store.pid])

  assert.equal(await store.end('SIGTERM'), 0)
  assert.equal(isRunning(again), false)
  assert.deepEqual(serverProcesses(folder.path), [])
  assert.deepEqual(
    linesOf(store).filter(({ level, msg }) => level > 30 && !/^a process of the store ended/.test(msg)),
    [],
  )
})

test('when the first process is killed, the others end, and the server with them', async (t) => {
  const { store, worker } = await serveTwo(t)
  const pipeline = await untilPipeline(store)
  await store.end('SIGKILL')
  await eventually(async () => !isRunning(worker) && !isRunning(pipeline), { what: 'the end of the other processes' })
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
