import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { eventually } from './eventually.ts'
import { startStore } from './store.ts'

const HALF_OPEN = 500

test('ends connections with half a header in time, and answers others meanwhile', async (t) => {
  const store = await startStore(t, { maxConnections: HALF_OPEN })
  const { port } = store
  const open = async (text: string) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.write(text)
    return socket.resume()
  }
  const sockets = await Promise.all(Array.from({ length: HALF_OPEN }, () => open('GET /products HTTP/1.1\r\nhost: loc')))
  await eventually(async () => (await connections()) === HALF_OPEN)
  assert.equal((await fetch(`http://127.0.0.1:${port}/products?limit=1`, { headers: { connection: 'close' } })).status, 200)
  await eventually(async () => sockets.every(({ destroyed }) => destroyed), { what: 'the end of half-open connections', timeoutMs: 60_000 })

  function connections(): Promise<number> {
    return new Promise((resolve) => store.server.server.getConnections((_error, count) => resolve(count)))
  }
})

test('closes an idle connection when there is no place for another one', async (t) => {
  const places = 5
  const store = await startStore(t, { maxConnections: places })
  const { port } = store
  const idle = await Promise.all(
    Array.from({ length: places }, async () => {
      const socket = connect(port, '127.0.0.1')
      await once(socket, 'connect')
      socket.write('GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n')
      await once(socket, 'data')
      return socket.resume()
    }),
  )
  const isAnswered = async () => (await fetch(`http://127.0.0.1:${port}/livez`).catch(() => null))?.status === 200
  await eventually(isAnswered, { what: 'an answer although idle connections had all the places' })
  assert.ok(idle.some(({ destroyed, readableEnded }) => destroyed || readableEnded))
})

for (const [what, begin] of [
  ['header', 'GET /products HTTP/1.1\r\nhost: x\r\n'],
  ['body', 'POST /auth/login HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n{'],
] as const)
  test(`answers others while one client has more connections than there are places, each with a part of a ${what}`, async (t) => {
    const places = 40
    const store = await startStore(t, { maxConnections: places })
    const { port } = store
    const ending = new AbortController()
    let opened = 0
    const attack = () => {
      if (ending.signal.aborted) return
      const socket = connect(port, '127.0.0.1', () => {
        opened += 1
        socket.write(begin)
      })
      const dribble = setInterval(() => socket.write('x'), 1_000)
      socket
        .on('error', () => {})
        .on('close', () => {
          clearInterval(dribble)
          setTimeout(attack, 50)
        })
      ending.signal.addEventListener('abort', () => socket.destroy())
    }
    for (let index = 0; index < 1.5 * places; index++) attack()
    try {
      await eventually(async () => opened > 3 * places, { what: 'connections that return' })
      for (let turn = 0; turn < 20; turn++) {
        const answer = await fetch(`http://127.0.0.1:${port}/products?limit=1`, { headers: { connection: 'close' } })
        assert.equal(answer.status, 200)
        await answer.text()
      }
    } finally {
      ending.abort()
    }
  })
