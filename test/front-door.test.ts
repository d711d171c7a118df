import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { createFrontDoor } from '../deploy/front-door.ts'
import { eventually } from './eventually.ts'

const MEBIBYTE = 1_048_576

async function listen(t: TestContext, server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  const address = server.address()
  return typeof address === 'object' ? (address?.port ?? 0) : 0
}

/** A front door before an API that answers so. */
async function open(t: TestContext, answer: RequestListener): Promise<{ url: string; port: number; door: Server }> {
  const door = createFrontDoor([await listen(t, createServer(answer))], () => {})
  const port = await listen(t, door)
  return { url: `http://127.0.0.1:${port}/`, port, door }
}

test('the front door passes large bodies on whole, both ways, and refuses one that is too large', async (t) => {
  const { url } = await open(t, async (incoming, outgoing) => {
    let size = 0
    for await (const chunk of incoming) size += chunk.length
    outgoing.end(Buffer.alloc(size + MEBIBYTE))
  })
  const post = async (size: number) => {
    const answer = await fetch(url, { method: 'POST', body: Buffer.alloc(size) })
    return [answer.status, (await answer.arrayBuffer()).byteLength]
  }
  assert.deepEqual(await post(8 * MEBIBYTE), [200, 9 * MEBIBYTE])
  assert.deepEqual(await post(17 * MEBIBYTE), [413, 0])
})

test('a caller who goes away before the end of the body does not end the front door', async (t) => {
  const { url, port, door } = await open(t, (_incoming, outgoing) => outgoing.end('here'))
  const client = connect(port, '127.0.0.1')
  client.write('POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{')
  await once(door, 'request')
  client.destroy()
  const connections = () => new Promise<number>((resolve) => door.getConnections((_error, count) => resolve(count)))
  await eventually(async () => (await connections()) === 0)
  assert.equal(await (await fetch(url)).text(), 'here')
})
