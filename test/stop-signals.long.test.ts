import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { request } from 'node:http'
import { connect } from 'node:net'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, type TestContext, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { makeDataFolder, serverProcesses } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { CLIENTS, startClients } from './keep-alive-clients.ts'
import { BIN } from './store-process.ts'

const folder = makeDataFolder({ after })
/** It exceeds the time within which two signals count as one. */
const NEXT_PRESS_MS = 400
const PROCESSES = 3
/** Enough that the kernel gives each process some. */
const SLOW_REQUESTS = 48

/** A store in a process group of its own, as a terminal or systemd starts it. */
async function serveInGroup(t: TestContext, node: string, settings: Record<string, string> = {}) {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, DATA_DIR: folder.path, PORT: '0', OPS_PORT: 'off', ...settings }
  const child = spawn(node, [BIN, 'serve'], { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  const ended = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>
  const logs: { msg: string; level: number; pid: number; request_id?: string; addresses?: { port: number }[] }[] = []
  const errors: string[] = []
  if (child.stderr !== null) createInterface(child.stderr).on('line', (line) => errors.push(line))
  if (child.stdout !== null) createInterface(child.stdout).on('line', (line) => logs.push(JSON.parse(line)))
  const press = (signal: NodeJS.Signals) => {
    try {
      process.kill(-(child.pid ?? 0), signal)
    } catch (error) {
      // It has ended meanwhile.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
  // The group may outlive its first process, and has the same output.
  let isClosed = false
  void ended.then(() => {
    isClosed = true
  })
  t.after(async () => {
    if (!isClosed) press('SIGKILL')
    await ended
  })
  await eventually(async () => logs.some(({ addresses }) => addresses !== undefined))
  const port = logs.find(({ addresses }) => addresses !== undefined)?.addresses?.[0]?.port ?? 0
  return { port, logs, errors, press, pid: child.pid ?? 0, ended }
}

/** Sends a request but not the end of its body, and returns when a process has taken it. */
async function startSlowRequest(port: number): Promise<{ id: string; finish(): Promise<number | string> }> {
  const id = randomUUID()
  const headers = { 'content-type': 'application/json', 'content-length': '2', expect: '100-continue', 'x-request-id': id }
  const sent = request({ port, host: '127.0.0.1', method: 'POST', path: '/auth/login', headers, agent: false })
  const { promise: answer, resolve } = Promise.withResolvers<number | string>()
  sent.on('error', ({ message }) => resolve(message))
  sent.on('response', (response) => resolve(response.resume().statusCode ?? 0))
  sent.flushHeaders()
  await once(sent, 'continue')
  sent.write('{')
  return {
    id,
    finish() {
      sent.end('}')
      return answer
    },
  }
}

/** A Node.js that does not run the store itself but starts the pinned one. */
function findOlderNode(): string | undefined {
  const candidates = (process.env.PATH ?? '').split(delimiter).map((path) => join(path, 'node'))
  return candidates.find(
    (node) => existsSync(node) && Number(/^v(\d+)/.exec(execFileSync(node, ['--version'], { encoding: 'utf8' }))?.[1]) < 26,
  )
}

const olderNode = findOlderNode()

for (const [name, node] of [
  ['the pinned Node.js', process.execPath],
  ['an older Node.js that starts the pinned one', olderNode],
] as const) {
  const skip = node === undefined ? 'there is no Node.js below 26 on the PATH' : false
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    test(`${signal} to the group twice ends the store with status 0 and cuts no request, by ${name}`, { skip }, async (t) => {
      const store = await serveInGroup(t, node ?? '')
      const clients = startClients(store.port)
      await eventually(async () => clients.count.answered > CLIENTS)
      store.press(signal)
      // The repeated signal of a terminal, or of a user who presses Ctrl-C twice.
      store.press(signal)
      await delay(NEXT_PRESS_MS)
      store.press(signal)
      assert.deepEqual(await store.ended, [0, null])
      await clients.done
      assert.equal(clients.count.cut, 0, JSON.stringify(clients.count))
      assert.deepEqual(serverProcesses(folder.path), [])
      assert.deepEqual(
        store.logs.filter(({ level }) => level > 30),
        [],
      )
    })
  }

  test(`SIGTERM to the group twice cuts no request of further API processes, by ${name}`, { skip }, async (t) => {
    const store = await serveInGroup(t, node ?? '', { WEB_CONCURRENCY: String(PROCESSES + 1), RATE_LIMITS: 'off' })
    const pidsOf = (message: RegExp) => new Set(store.logs.flatMap(({ msg, pid }) => (message.test(msg) ? [pid] : [])))
    await eventually(async () => pidsOf(/^Storefront answers/).size === PROCESSES, { what: 'all processes that answer' })
    const requests = await Promise.all(Array.from({ length: SLOW_REQUESTS }, () => startSlowRequest(store.port)))
    store.press('SIGTERM')
    await eventually(async () => pidsOf(/^stopping$/).size === PROCESSES + 1, { what: 'all processes that stop' })
    await delay(NEXT_PRESS_MS)
    store.press('SIGTERM')
    await delay(NEXT_PRESS_MS)
    const answers = await Promise.all(requests.map(({ finish }) => finish()))
    assert.deepEqual(new Set(answers), new Set([422]))
    assert.deepEqual(await store.ended, [0, null])
    const ids = new Set(requests.map(({ id }) => id))
    const answered = store.logs.filter(({ request_id }) => ids.has(request_id ?? ''))
    assert.deepEqual([answered.length, new Set(answered.map(({ pid }) => pid)).size], [SLOW_REQUESTS, PROCESSES])
    assert.deepEqual(store.errors, [])
    assert.deepEqual(
      store.logs.filter(({ level }) => level > 30),
      [],
    )
  })

  test(`a signal to one process alone ends the store, by ${name}`, { skip }, async (t) => {
    const store = await serveInGroup(t, node ?? '')
    process.kill(store.pid, 'SIGTERM')
    assert.deepEqual(await store.ended, [0, null])
    assert.deepEqual(serverProcesses(folder.path), [])
  })

  test(`signals until its very end change nothing: the status is 0, by ${name}`, { skip }, async (t) => {
    const store = await serveInGroup(t, node ?? '')
    let isOver = false
    void store.ended.finally(() => {
      isOver = true
    })
    // These signals are so close together that they count as one.
    while (!isOver) {
      store.press('SIGINT')
      await delay(1)
    }
    assert.deepEqual(await store.ended, [0, null])
    assert.deepEqual(serverProcesses(folder.path), [])
  })
}

test('kill -9 of an older Node.js ends the store that it started', {
  skip: olderNode === undefined ? 'there is no Node.js below 26 on the PATH' : false,
}, async (t) => {
  const store = await serveInGroup(t, olderNode ?? '')
  process.kill(store.pid, 'SIGKILL')
  await eventually(async () => serverProcesses(folder.path).length === 0, { what: 'the end of the database' })
  assert.deepEqual(await store.ended, [null, 'SIGKILL'])
  assert.ok(store.logs.some(({ msg }) => msg === 'stopping'))
  assert.deepEqual(
    store.logs.filter(({ level }) => level > 30),
    [],
  )
})

test('the third time ends a store that waits for a request', async (t) => {
  const store = await serveInGroup(t, process.execPath)
  const client = connect(store.port, '127.0.0.1')
  client.on('error', () => {})
  client.write('POST /auth/login HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{')
  await once(client, 'connect')
  // Another request is answered only after the server has taken this one.
  assert.equal((await fetch(`http://127.0.0.1:${store.port}/livez`)).status, 200)
  let presses = 0
  let isOver = false
  const status = store.ended.finally(() => {
    isOver = true
  })
  // On a busy machine two may arrive so close together that they count as one.
  while (!isOver) {
    store.press('SIGINT')
    presses += 1
    await delay(NEXT_PRESS_MS)
  }
  assert.deepEqual(await status, [130, null])
  assert.ok(presses >= 3, `ended at the press ${presses}`)
  client.destroy()
  await eventually(async () => serverProcesses(folder.path).length === 0)
})
