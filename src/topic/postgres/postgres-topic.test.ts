import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import pino from 'pino'
import { onCleanup } from '../../../test/cleanup.ts'
import { topicConformance } from '../../../test/conformance/topic-conformance.ts'
import { createTestDatabase, setConnectable, type TestDatabase, terminateBackends } from '../../../test/database.ts'
import { eventually } from '../../../test/eventually.ts'
import { endSubscriberConnection, idsOf, makeOutgoing, Recording, subscribe, type TopicUnderTest } from '../../../test/topic-harness.ts'
import { createPool } from '../../db/pool.ts'
import { ORDERS } from '../partitions.ts'
import { createPostgresTopic } from './postgres-topic.ts'

const logger = pino({ level: 'silent' })
/** The tables of the catalogue, with the events of the suite. */
const CATALOGUE_PLACE = { ...ORDERS, name: 'catalogue' } as const

interface PostgresTopicUnderTest extends TopicUnderTest {
  db: TestDatabase
}

async function makeTopic(t: TestContext, { isCatalogue = false } = {}): Promise<PostgresTopicUnderTest> {
  const [partition, table, channel] = isCatalogue
    ? [CATALOGUE_PLACE, 'catalogue_messages', 'storefront_catalogue_topic']
    : [ORDERS, 'topic_messages', 'storefront_topic']
  const db = await createTestDatabase(t)
  const connect = async () => {
    const pool = createPool({ url: db.url, size: 4, applicationName: 'publisher', onError: () => {} })
    onCleanup(t, () => pool.end())
    return createPostgresTopic(partition, { pool, url: db.url, logger })
  }
  const breakConnection = (subscriber: string) => endSubscriberConnection(db, subscriber)
  const inject = async (id: string, event: string) => {
    await db.pool.query(`insert into ${table} (id, position, event) values ($1, '', $2)`, [id, event])
    await db.pool.query(`notify ${channel}`)
  }
  const breakBroker = async () => {
    await setConnectable(db, false)
    await terminateBackends(db)
  }
  const mendBroker = async () => void (await setConnectable(db, true))
  return { db, topic: await connect(), connect, breakConnection, breakBroker, mendBroker, inject }
}

topicConformance('the topic in PostgreSQL', (t) => makeTopic(t))
topicConformance('the partition of the catalogue in PostgreSQL', (t) => makeTopic(t, { isCatalogue: true }))

test('a reader never sees a message before another one with a lower sequence that is still being committed', async (t) => {
  const { db, topic, connect } = await makeTopic(t)
  const [slow, quick] = [makeOutgoing(1), makeOutgoing(1, 2)]
  // Holds the first publisher between its sequence and its commit.
  await db.pool.query(`create function hold() returns trigger language plpgsql as $$
    begin perform pg_advisory_xact_lock(42); return null; end $$`)
  await db.pool.query(`create trigger hold after insert on topic_messages for each row when (new.id = '${slow[0]?.event.id}')
    execute function hold()`)
  const holder = await db.pool.connect()
  await holder.query('select pg_advisory_lock(42)')
  const seen = new Recording()
  await subscribe(t, topic, 'reader', seen.handle)
  const waiters = async (count: number) => {
    const { rows } = await db.pool.query(
      `select pid from pg_stat_activity where datname = $1 and application_name = 'publisher' and wait_event_type = 'Lock'`,
      [db.name],
    )
    return rows.length === count
  }
  try {
    const first = topic.publish(slow)
    await eventually(() => waiters(1))
    const second = (await connect()).publish(quick)
    await Promise.race([second, eventually(() => waiters(2))])
    assert.deepEqual(seen.ids, [])
    await holder.query('select pg_advisory_unlock(42)')
    await Promise.all([first, second])
  } finally {
    holder.release(true)
  }
  await seen.until(2)
  assert.deepEqual(seen.ids, idsOf([...slow, ...quick]))
})

test('a duplicate takes no sequence', async (t) => {
  const { topic } = await makeTopic(t)
  const sent = makeOutgoing(2)
  for (let round = 0; round < 20; round++) await topic.publish(sent.slice(0, 1))
  await topic.publish(sent)
  const seen = new Recording()
  await subscribe(t, topic, 'reader', seen.handle)
  await seen.until(2)
  assert.deepEqual(
    seen.messages.map(({ sequence }) => sequence),
    [1, 2],
  )
})

test('stores the id and the position of each message beside its event', async (t) => {
  const { db, topic } = await makeTopic(t)
  const sent = makeOutgoing(2)
  await topic.publish(sent)
  const { rows } = await db.pool.query('select id, position, event from topic_messages order by sequence')
  assert.deepEqual(
    rows,
    sent.map(({ position, event }) => ({ id: event.id, position, event })),
  )
})

test('returns the exact position of its newest message', async (t) => {
  const { topic, connect } = await makeTopic(t)
  const sent = makeOutgoing(3)
  await topic.publish(sent)
  assert.equal(await topic.newestPosition(), sent[2]?.position)
  assert.equal(await (await connect()).newestPosition(), sent[2]?.position)
})

test('a batch is limited in bytes, and the next batch has the rest', async (t) => {
  const { topic, inject } = await makeTopic(t)
  for (let number = 1; number <= 5; number++) await inject(`${number}`, JSON.stringify({ text: randomBytes(2_000_000).toString('base64') }))
  const sizes: number[] = []
  for (let after = 0; ; ) {
    const messages = await topic.read(after, 10)
    const last = messages.at(-1)
    if (last === undefined) break
    after = last.sequence
    sizes.push(messages.length)
  }
  assert.deepEqual(sizes, [2, 2, 1])
})
