import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { openDeadWire } from '../../test/dead-wire.ts'
import { eventually, promptly } from '../../test/eventually.ts'
import { makeStreamDatabase, silent } from '../../test/stream-harness.ts'
import { connectClient } from '../db/pool.ts'
import { withReconnect } from '../db/with-reconnect.ts'
import { ORDERS } from '../topic/partitions.ts'
import { createPostgresTopic } from '../topic/postgres/postgres-topic.ts'
import { ChangeStream } from './change-stream.ts'
import { ORDER_SOURCE } from './order-stream-handler.ts'

/** Far below the connect timeout of 30 s, and above the 2 s for which closing waits for a connected server. */
const WITHIN_MS = 4_000

type StreamDatabase = Awaited<ReturnType<typeof makeStreamDatabase>>

interface Stoppable {
  start(): Promise<void>
  stop(): Promise<void>
}

/** The things to stop. Each function makes one on this wire. */
const KINDS = {
  'a change stream': (url: string, db: StreamDatabase) =>
    new ChangeStream({ source: ORDER_SOURCE, url, slotName: db.slotName, onCommits: async () => {}, logger: silent }),
  'a subscriber': (url: string, db: StreamDatabase) =>
    createPostgresTopic(ORDERS, { pool: db.pool, url, logger: silent }).subscribe('mail', async () => {}),
  'a listener': (url: string) => makeListener(url),
}

function makeListener(url: string): Stoppable {
  return withReconnect({
    connect: (signal) => connectClient(url, 'listener', signal),
    work: (_client, signal) => new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve())),
    onFailure: () => {},
    retryMs: 100,
  })
}

for (const [kind, make] of Object.entries(KINDS)) {
  test(`${kind} stops at once while its database does not accept a connection`, async (t) => {
    const db = await makeStreamDatabase(t)
    const wire = await openDeadWire(t, db.url)
    wire.die()
    const part = make(wire.url, db)
    await part.start()
    await eventually(async () => wire.open() > 0, { what: 'an attempt to connect' })
    await assertStops(db.pool, part, wire)
  })

  test(`${kind} stops at once after its database has stopped answering`, async (t) => {
    const db = await makeStreamDatabase(t)
    // Another stream is active, so this one is on standby.
    const active = kind === 'a listener' ? null : make(db.url, db)
    await active?.start()
    onCleanup(t, () => active?.stop())
    if (active !== null && 'state' in active) await eventually(async () => active.state === 'active', { what: 'an active one' })
    const wire = await openDeadWire(t, db.url)
    const part = make(wire.url, db)
    await part.start()
    if ('state' in part) await eventually(async () => part.state === 'standby' && wire.open() > 0, { what: 'one that stands by' })
    else await eventually(async () => wire.open() > 0)
    wire.die()
    await assertStops(db.pool, part, wire)
  })
}

async function assertStops(pool: Parameters<typeof promptly>[0], part: Stoppable, wire: Awaited<ReturnType<typeof openDeadWire>>) {
  let isStopped = false
  const stopping = part.stop().then(() => {
    isStopped = true
  })
  await promptly(pool, async () => isStopped, { withinMs: WITHIN_MS, what: 'the stop' })
  await stopping
  // Anything left open would keep the process alive.
  await eventually(async () => wire.open() === 0, { what: 'no connection left' })
  assert.equal(wire.open(), 0)
}
