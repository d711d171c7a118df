import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { EventEmitter, on, once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { after, describe, type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { AckPolicy } from '@nats-io/jetstream'
import { eventually } from '../../../test/eventually.ts'
import { connectManager, natsSettings } from '../../../test/nats-harness.ts'
import { NO_NATS, startNatsServer } from '../../../test/nats-server.ts'
import { silent } from '../../../test/stream-harness.ts'
import { NatsClient } from './connection.ts'
import { NatsPull, type PulledMessage } from './pull.ts'

const MEGABYTE = 1_000_000

const server = NO_NATS ? null : await startNatsServer({ after })

/** A pull from a consumer of a new stream. */
async function openPull(t: TestContext, url = server?.url ?? '') {
  const client = new NatsClient(natsSettings(url), 'test', silent)
  t.after(() => client.close())
  const jetstream = await client.get()
  const name = `pull-${randomUUID()}`
  await jetstream.manager.streams.add({ name, subjects: [`${name}.>`] })
  const consumer = await jetstream.manager.consumers.add(name, { name: 'reader', ack_policy: AckPolicy.None })
  const pull = new NatsPull(jetstream, name, consumer.name)
  const publish = (payload: Uint8Array = new Uint8Array(10)) => jetstream.client.publish(`${name}.x`, payload)
  return { name, pull, publish, manager: await connectManager(t, url) }
}

/** Takes until there are messages. A pull waits a second, and the publisher may be slower. */
async function takeSome(pull: NatsPull): Promise<PulledMessage[]> {
  while (true) {
    const taken = await pull.take()
    if (taken.length > 0) return taken
  }
}

describe('a pull', { skip: NO_NATS }, () => {
  test('returns a message while its request is open at the server, and nothing if none arrives for a second', async (t) => {
    const { pull, publish } = await openPull(t)
    pull.request(10)
    const taken = takeSome(pull)
    await publish()
    assert.deepEqual(
      (await taken).map(({ streamSequence, deliverySequence }) => [streamSequence, deliverySequence]),
      [[1, 1]],
    )
    assert.deepEqual(await pull.take(), [])
  })

  test('has at most the requested number of messages in memory, and then continues after them', async (t) => {
    const { pull, publish } = await openPull(t)
    for (let count = 0; count < 25; count += 1) await publish()
    const batches: number[][] = []
    while (batches.flat().length < 25) {
      pull.request(10)
      pull.request(10)
      batches.push((await pull.take()).map(({ streamSequence }) => streamSequence))
    }
    assert.deepEqual(
      batches.map(({ length }) => length),
      [10, 10, 5],
    )
    assert.deepEqual(
      batches.flat(),
      Array.from({ length: 25 }, (_, index) => index + 1),
    )
  })

  test('reads large messages in batches of 8 MB, each message once', async (t) => {
    const { pull, publish } = await openPull(t)
    const large = randomBytes(MEGABYTE)
    for (let count = 0; count < 20; count += 1) await publish(large)
    const taken: [number, number][] = []
    while (taken.length < 20) {
      pull.request(1_000)
      const batch = await pull.take()
      assert.ok(batch.length <= 8)
      taken.push(...batch.map(({ streamSequence, deliverySequence }): [number, number] => [streamSequence, deliverySequence]))
    }
    assert.deepEqual(
      taken,
      Array.from({ length: 20 }, (_, index) => [index + 1, index + 1]),
    )
  })

  test('stops waiting when its signal aborts', async (t) => {
    const { pull } = await openPull(t)
    const stopping = new AbortController()
    pull.request(10)
    const taken = pull.take(stopping.signal)
    stopping.abort()
    assert.deepEqual(await withoutTime(taken), [])
  })

  test('throws if its consumer is deleted, while it waits or before', async (t) => {
    const { name, pull, manager } = await openPull(t)
    pull.request(10)
    const taken = pull.take()
    // Some servers do not report it.
    const message = /409 consumer deleted|503|consumer not found/
    const refused = assert.rejects(taken, message)
    await manager.consumers.delete(name, 'reader')
    await refused
    const late = await openPull(t)
    await late.manager.consumers.delete(late.name, 'reader')
    late.pull.request(10)
    await assert.rejects(late.pull.take(), message)
  })

  test('can request again after its request was lost with the connection', async (t) => {
    const own = await startNatsServer(t)
    const { pull, publish } = await openPull(t, own.url)
    pull.request(10)
    const taken = pull.take()
    await own.end()
    await own.start()
    assert.deepEqual(await taken, [])
    pull.request(10)
    await publish()
    assert.equal((await takeSome(pull)).length, 1)
  })

  test('throws if a message was lost with the connection, even if the server has kept the request', async (t) => {
    const wire = await startWire(t, server?.url ?? '')
    const { name, pull } = await openPull(t, wire.url)
    pull.request(10)
    assert.deepEqual(await pull.take(), [])
    wire.swallow()
    const manager = await connectManager(t, server?.url ?? '')
    await manager.jetstream().publish(`${name}.x`)
    // A message that the server has not sent is not lost.
    await eventually(async () => (await manager.consumers.info(name, 'reader')).delivered.consumer_seq === 1)
    wire.cut()
    const taking = async () => {
      for (let takes = 0; takes < 6; takes += 1) assert.deepEqual(await pull.take(), [])
    }
    await assert.rejects(taking(), /lost in transit/)
  })

  test('stops waiting at once if its signal aborts while the server is silent', async (t) => {
    const wire = await startWire(t, server?.url ?? '')
    const { pull } = await openPull(t, wire.url)
    const stopping = new AbortController()
    pull.request(10)
    wire.swallow()
    const asked = wire.untilSent('CONSUMER.INFO')
    const taken = pull.take(stopping.signal)
    await asked
    stopping.abort()
    assert.deepEqual(await withoutTime(taken), [])
    wire.cut()
  })
})

/** Work that needs neither clock nor server is done after a few turns of the event loop, however long those take. */
async function withoutTime<T>(work: Promise<T>): Promise<T | 'not yet'> {
  const turns = async () => {
    for (let turn = 0; turn < 10; turn++) await setImmediate()
    return 'not yet' as const
  }
  return Promise.race([work, turns()])
}

/**
 * A proxy to the server that can swallow the server's messages. A client whose connection was cut can connect again.
 */
async function startWire(t: TestContext, url: string) {
  const { hostname, port } = new URL(url)
  const links = new Set<{ client: Socket; isDeaf: boolean }>()
  const sent = new EventEmitter()
  const proxy = createServer((client) => {
    const link = { client, isDeaf: false }
    links.add(link)
    const far = connect(Number(port), hostname)
    const forward = (data: Buffer) => {
      sent.emit('data', data.toString())
      far.write(data)
    }
    client.on('data', forward).on('close', () => far.destroy())
    far.on('data', (data) => link.isDeaf || client.write(data)).on('close', () => client.destroy())
    for (const socket of [client, far]) socket.on('error', () => {})
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const cut = () => {
    for (const { client } of links) client.destroy()
    links.clear()
  }
  t.after(() => {
    cut()
    proxy.close()
  })
  const swallow = () => {
    for (const link of links) link.isDeaf = true
  }
  const untilSent = async (text: string) => {
    for await (const [data] of on(sent, 'data')) if (data.includes(text)) return
  }
  return { url: `nats://127.0.0.1:${(proxy.address() as AddressInfo).port}`, swallow, cut, untilSent }
}
