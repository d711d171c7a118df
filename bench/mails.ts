// The rate at which a backlog of order mails is sent, beside nodemailer alone with the same mail server, which is a
// third process. Options: --mails 20000
import { randomUUID } from 'node:crypto'
import { type Cleanup, withCleanup } from '../test/cleanup.ts'
import { eventually } from '../test/eventually.ts'
import type { BareLoad } from './mails/bare-mailer.ts'
import type { SinkReport } from './mails/sink.ts'
import { orderText } from './pipeline/order-text.ts'
import { type Child, startChild } from './rig/child.ts'
import { median } from './rig/measurement.ts'
import { processorSeconds } from './rig/processor-time.ts'
import { openStore, type Store } from './rig/store.ts'
import { inTurns, type Row, readOptions } from './row.ts'

const CUSTOMERS = 1_000
const SELDOM = { timeoutMs: 600_000, pauseMs: 100 }

interface Figures {
  perSecond: number
  /** The processor time of the sender and its database. */
  processorMs: number
}

export async function run(args: string[]): Promise<Row[]> {
  const { rounds, isQuick, more } = readOptions(args, { mails: '' })
  const mails = Number(more.mails || (isQuick ? 4_000 : 20_000))
  const [ours, bare]: [Figures[], Figures[]] = [[], []]
  const keep = (all: Figures[], figures: Figures) => {
    all.push(figures)
    return figures.perSecond
  }
  const rows: Row[] = []
  await withCleanup(async (cleanup) => {
    const sink = startChild(cleanup, 'mails/sink.ts')
    const { port } = await sink.ask<SinkReport>({})
    const store = await openStore(cleanup, { env: { SMTP_URL: `smtp://127.0.0.1:${port}` } })
    await addCustomers(store)
    const turns = await inTurns(
      rounds,
      async () => keep(ours, await sendByStore(store, sink, mails)),
      async () => keep(bare, await sendBare(cleanup, port, mails)),
    )
    const processorMs = (all: Figures[]) => median(all.map((figures) => figures.processorMs)).toFixed(2)
    rows.push({
      work: `mails of a backlog of ${mails.toLocaleString('en')}`,
      heldAgainst: 'bare nodemailer, pooled, same sink',
      goal: { atLeast: 0.6 },
      unit: 'mails/s',
      rounds: turns,
      note: `orders of three lines; one process of the role email; queueing and sending are timed. Processor time of a mail ${processorMs(ours)} ms with PostgreSQL, bare ${processorMs(bare)} ms.`,
    })
  })
  return rows
}

async function sendBare(cleanup: Cleanup, port: number, mails: number): Promise<Figures> {
  const mailer = startChild(cleanup, 'mails/bare-mailer.ts')
  const { seconds } = await mailer.ask<{ seconds: number }>({ port, mails } satisfies BareLoad)
  const processorMs = (processorSeconds([mailer.pid]) / mails) * 1_000
  await mailer.stop()
  return { perSecond: mails / seconds, processorMs }
}

async function addCustomers({ pool }: Store): Promise<void> {
  await pool.query(
    `insert into users (id, email, password_hash, role)
    select uuidv7(), 'customer-' || i || '@example.com', 'none', 'customer' from generate_series(1, $1::int) as i`,
    [CUSTOMERS],
  )
}

async function sendByStore(store: Store, sink: Child, mails: number): Promise<Figures> {
  const inTopic = await store.countMessages()
  await commitOrders(store, mails)
  const stream = await store.start('stream')
  await eventually(async () => (await store.countMessages()) >= inTopic + mails, { ...SELDOM, what: 'every event' })
  await stream.stop()
  const { mails: accepted } = await sink.ask<SinkReport>({})
  const email = await store.start('email')
  const usedBefore = processorSeconds([email.pid, store.postgresPid])
  await eventually(async () => (await sink.ask<SinkReport>({})).mails >= accepted + mails, { ...SELDOM, what: 'every mail' })
  const { newestMs } = await sink.ask<SinkReport>({})
  const used = processorSeconds([email.pid, store.postgresPid]) - usedBefore
  await email.stop()
  return { perSecond: mails / ((newestMs - email.activeAtMs) / 1_000), processorMs: (used / mails) * 1_000 }
}

/** Commits orders of all customers in turn. */
async function commitOrders({ pool }: Store, orders: number): Promise<void> {
  const { items, history, productIds, total } = orderText(randomUUID())
  await pool.query(
    `insert into orders (id, user_id, status, items, total_amount, currency, status_history, product_ids, created_at, updated_at)
    select uuidv7(), buyer.id, 'pending', $1, $2, 'EUR', $3, $4, now(), now()
    from generate_series(1, $5::int) as i
    join (select id, row_number() over (order by id) as number from users) as buyer on buyer.number = 1 + i % $6::int`,
    [items, total, history, productIds, orders, CUSTOMERS],
  )
}
