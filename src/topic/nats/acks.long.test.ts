import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, describe, type TestContext, test } from 'node:test'
import { JetStreamApiError, PubHeaders } from '@nats-io/jetstream'
import { headers, NoRespondersError, TimeoutError } from '@nats-io/transport-node'
import { natsSettings } from '../../../test/nats-harness.ts'
import { NO_NATS, startNatsServer } from '../../../test/nats-server.ts'
import { silent } from '../../../test/stream-harness.ts'
import { NatsClient } from './connection.ts'

const PAYLOAD = Buffer.from('{}')

const server = NO_NATS ? null : await startNatsServer({ after })

async function connect(t: TestContext) {
  const client = new NatsClient(natsSettings(server?.url ?? ''), 'test', silent)
  t.after(() => client.close())
  return { close: () => client.close(), ...(await client.get()) }
}

describe('acknowledgements', { skip: NO_NATS }, () => {
  test('acknowledgements and refusals are matched to their messages', async (t) => {
    const { acks, manager } = await connect(t)
    const name = `acks-${randomUUID()}`
    await manager.streams.add({ name, subjects: [`${name}.>`] })
    const outOfTurn = headers()
    outOfTurn.append(PubHeaders.ExpectedLastMsgIdHdr, 'nobody')
    const twice = headers()
    twice.append(PubHeaders.MsgIdHdr, 'twice')
    const settled = await Promise.allSettled([
      acks.publish(`${name}.a`, PAYLOAD, twice),
      acks.publish(`${name}.b`, PAYLOAD, outOfTurn),
      acks.publish(`${name}.a`, PAYLOAD, twice),
      acks.publish(`${randomUUID()}.nobody`, PAYLOAD, headers()),
      acks.publish(`${name}.c`, PAYLOAD, headers()),
    ])
    const outcomes = settled.map((result) =>
      result.status === 'fulfilled' ? [result.value.stream, result.value.seq, result.value.duplicate] : result.reason,
    )
    assert.deepEqual(
      [outcomes[0], outcomes[2], outcomes[4]],
      [
        [name, 1, false],
        [name, 1, true],
        [name, 2, false],
      ],
    )
    assert.ok(outcomes[1] instanceof JetStreamApiError && outcomes[1].code === 10_070)
    assert.ok(outcomes[3] instanceof NoRespondersError)
  })

  test('acknowledgements time out after two and a half seconds, or fail when the connection is closed', async (t) => {
    const { acks, close, connection } = await connect(t)
    const subject = `silent.${randomUUID()}`
    connection.subscribe(subject, { callback: () => {} })
    const since = performance.now()
    const first = acks.publish(subject, PAYLOAD, headers())
    await assert.rejects(first, TimeoutError)
    assert.ok(performance.now() - since > 2_400)
    const second = assert.rejects(acks.publish(subject, PAYLOAD, headers()), /closed/)
    await close()
    await second
  })
})
