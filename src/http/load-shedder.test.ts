import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { after, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { pino } from 'pino'
import { eventually } from '../../test/eventually.ts'
import { exchange } from '../../test/raw-http.ts'
import { ALONE, FEW_CONNECTIONS, FEW_REQUESTS, LoadShedder, overloaded, type PressureSignal, TICK_MS } from './load-shedder.ts'
import { type LoadClass, SHED_CLASSES } from './request-cost.ts'
import { createHttpServer } from './server.ts'

const MANY = FEW_CONNECTIONS + 1

/** Raises or lowers the level by one class: half a second at twice the limit, with punctual ticks. */
function stepOneClass(shedder: LoadShedder, connections = MANY): void {
  for (let ms = 0; ms < 500; ms += TICK_MS) shedder.step(TICK_MS, connections)
}

/**
 * A server with a route of each class, whose shedder changes its level only by `step`, and the classes that it refused.
 */
async function createServer(signals: PressureSignal[]) {
  const shed: LoadClass[] = []
  const shedder = new LoadShedder({ signals })
  let authenticated = 0
  const authenticate = () => {
    authenticated += 1
    return Promise.reject(new Error('unused'))
  }
  const server = await createHttpServer({
    logger: pino({ level: 'silent' }),
    baseUrl: 'http://localhost',
    corsOrigins: '*',
    authenticate,
    shedder,
    onOverloaded: (loadClass) => shed.push(loadClass),
  })
  server.get('/search', { config: { access: 'public', cost: ({ q }) => (q === undefined ? 'page' : 'search') } }, async () => 'found')
  server.post('/orders', { config: { access: 'public', cost: 'token' } }, async () => 'placed')
  server.get('/health', { config: { access: 'public', cost: 'health' } }, async () => 'ok')
  server.get('/full', { config: { access: 'public', cost: 'page' } }, async () => {
    throw overloaded('lists', 'A queue is full.')
  })
  server.get('/mine', { config: { access: 'caller', cost: 'own' } }, async () => 'mine')
  server.get('/admin', { config: { access: 'orders:read' } }, async () => 'all')
  after(() => server.close())
  const statuses = async () => {
    const answers = [
      server.inject('/search?q=lamp'),
      server.inject('/search'),
      server.inject({ method: 'POST', url: '/orders' }),
      server.inject('/health'),
    ]
    return (await Promise.all(answers)).map(({ statusCode }) => statusCode)
  }
  return { server, shedder, shed, statuses, authenticated: () => authenticated }
}

test('refuses searches first, then lists, orders last, and essential calls never; refuses nothing once the pressure is gone', async () => {
  let pressure = 2
  const { shedder, statuses, shed } = await createServer([{ sheds: 'orders', pressure: () => pressure }])
  assert.deepEqual(await statuses(), [200, 200, 200, 200])
  stepOneClass(shedder)
  assert.deepEqual(await statuses(), [503, 200, 200, 200])
  stepOneClass(shedder)
  assert.deepEqual(await statuses(), [503, 503, 200, 200])
  stepOneClass(shedder)
  assert.deepEqual(await statuses(), [503, 503, 503, 200])
  assert.deepEqual(shed, ['search', 'search', 'lists', 'search', 'lists', 'orders'])
  pressure = 0
  for (const _ of SHED_CLASSES) stepOneClass(shedder)
  assert.deepEqual(await statuses(), [200, 200, 200, 200])
})

test('refuses no request of a client that is alone, whatever the level of the burst before', async () => {
  const { shedder, statuses } = await createServer([{ sheds: 'orders', pressure: () => 2 }])
  for (const _ of SHED_CLASSES) stepOneClass(shedder)
  assert.deepEqual(await statuses(), [503, 503, 503, 200])
  shedder.step(TICK_MS, ALONE)
  assert.deepEqual(await statuses(), [200, 200, 200, 200])
  shedder.step(TICK_MS, ALONE + 1)
  assert.deepEqual(await statuses(), [503, 503, 503, 200])
})

test('counts a refusal by a full queue too', async () => {
  const { server, shed } = await createServer([])
  assert.equal((await server.inject('/full')).statusCode, 503)
  assert.deepEqual(shed, ['lists'])
})

test('refuses a share of a class while the pressure is at its limit', async () => {
  let pressure = 2
  const { shedder, server } = await createServer([{ sheds: 'orders', pressure: () => pressure }])
  for (let ms = 0; ms < 250; ms += TICK_MS) shedder.step(TICK_MS, MANY)
  pressure = 1
  for (let i = 0; i < 10; i++) stepOneClass(shedder)
  const answers = await Promise.all(Array.from({ length: 400 }, () => server.inject('/search?q=lamp')))
  const refused = answers.filter(({ statusCode }) => statusCode === 503).length
  assert.ok(refused > 100 && refused < 300, `${refused} of 400`)
})

test('pressure on a resource that orders do not need refuses no order', async () => {
  const { shedder, statuses } = await createServer([{ sheds: 'lists', pressure: () => 9 }])
  for (let i = 0; i < 20; i++) stepOneClass(shedder)
  assert.deepEqual((await statuses()).slice(2), [200, 200])
  assert.equal((await statuses())[0], 503)
})

test('waiting for connections counts from three clients on, and one pause of the process refuses no list', async () => {
  let pressure = 50
  const { shedder, statuses } = await createServer([{ sheds: 'lists', pressure: () => pressure }])
  for (let i = 0; i < 2; i++) stepOneClass(shedder, ALONE + 1)
  assert.deepEqual(await statuses(), [503, 503, 200, 200])
  pressure = 0
  for (const _ of SHED_CLASSES) stepOneClass(shedder, ALONE + 1)
  assert.deepEqual(await statuses(), [200, 200, 200, 200])
  pressure = 50
  shedder.step(5_000, MANY)
  assert.deepEqual((await statuses()).slice(1), [200, 200, 200])
})

test('a refusal precedes authentication and the body, has Retry-After, is readable for pages, and keeps the connection', async (t) => {
  // With mocked timers the level does not change by itself.
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { server, shedder, authenticated } = await createServer([{ sheds: 'orders', pressure: () => 9 }])
  await server.listen({ host: '127.0.0.1', port: 0 })
  for (const _ of SHED_CLASSES) stepOneClass(shedder)
  const request = 'POST /orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"broken"'
  const last = 'GET /mine HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer x\r\nconnection: close\r\n\r\n'
  const answers = (await exchange({ server }, request + last)).split(/(?=HTTP\/1.1 )/)
  assert.equal(answers.length, 2)
  for (const [index, [least, most]] of [
    [1, 3],
    [2, 6],
  ].entries()) {
    const answer = answers[index] ?? ''
    assert.match(answer, /^HTTP\/1.1 503 /)
    assert.match(answer, /\r\ncontent-type: application\/problem\+json/)
    assert.match(answer, /"code":"overloaded"/)
    assert.match(answer, /\r\naccess-control-allow-origin: \*/)
    const seconds = Number(/\r\nretry-after: (\d+)\r\n/.exec(answer)?.[1])
    assert.ok(seconds >= (least ?? 0) && seconds <= (most ?? 0), `${seconds} s`)
  }
  assert.equal(authenticated(), 0)
})

test('late timers refuse searches and lists, not orders', async () => {
  const { server, shedder, statuses } = await createServer([])
  const lateAfter = async (requests: number, connections = MANY) => {
    await Promise.all(Array.from({ length: requests }, () => server.inject('/health')))
    shedder.step(300, connections)
  }
  for (let i = 0; i < 10; i++) await lateAfter(FEW_REQUESTS)
  for (let i = 0; i < 10; i++) await lateAfter(FEW_REQUESTS + 1, FEW_CONNECTIONS)
  assert.deepEqual(await statuses(), [200, 200, 200, 200], 'the machine is busy, not the store')
  stepOneClass(shedder)
  for (let i = 0; i < 10; i++) await lateAfter(FEW_REQUESTS + 1)
  assert.deepEqual(await statuses(), [503, 503, 200, 200])
  for (const _ of SHED_CLASSES) stepOneClass(shedder)
  assert.deepEqual(await statuses(), [200, 200, 200, 200])
})

test('measures while it listens, and counts the open connections', async (t) => {
  const { server, shedder } = await createServer([])
  const steps: number[] = []
  t.mock.method(shedder, 'step', (_elapsedMs: number, connections: number) => {
    steps.push(connections)
    return false
  })
  const { port } = new URL(await server.listen({ host: '127.0.0.1', port: 0 }))
  const socket = connect(Number(port), '127.0.0.1')
  await eventually(async () => steps.includes(1))
  socket.destroy()
  await server.close()
  const after = steps.length
  await delay(200)
  assert.equal(steps.length, after)
})

test('does not measure without requests and pressure, and continues at the next request', async (t) => {
  let pressure = 2
  const { server, shedder } = await createServer([{ sheds: 'search', pressure: () => pressure }])
  const step = t.mock.method(shedder, 'step')
  const elapsed = () => step.mock.calls.map((call) => call.arguments[0] as number)
  const canRest = () => step.mock.calls.at(-1)?.result === true
  await server.listen({ host: '127.0.0.1', port: 0 })
  await eventually(async () => elapsed().length > 5)
  assert.equal(canRest(), false, 'there is pressure')
  pressure = 0
  await eventually(async () => canRest())
  const before = elapsed().length
  await delay(300)
  assert.equal(elapsed().length, before, 'it rests')
  pressure = 2
  const askedAt = performance.now()
  await server.inject('/health')
  await eventually(async () => elapsed().length > before + 5)
  assert.ok((elapsed()[before] ?? 0) <= performance.now() - askedAt, 'the rest is no late timer')
})
