// How fast a backlog of order mails goes out, against nodemailer alone with the same mail server, which is a third process.
// Options: --mails 20000 --rounds 3
import { randomUUID } from 'node:crypto'
import { parseArgs } from 'node:util'
import { type Cleanup, onCleanup, withCleanup } from '../test/cleanup.ts'
import { eventually } from '../test/eventually.ts'
import type { BareLoad } from './mails/bare-mailer.ts'
import type { SinkReport } from './mails/sink.ts'
import { type Child, startChild } from './orders/child.ts'
import { printTable } from './orders/measurement.ts'
import { processorSeconds } from './orders/processor-time.ts'
import { orderText } from './pipeline/order-text.ts'
import { type Rig, startRig } from './pipeline/rig.ts'

const CUSTOMERS = 1_000
const SELDOM = { timeoutMs: 600_000, pauseMs: 100 }

interface Figures {
  perSecond: number
  /** Of the sender and its database, in milliseconds per mail. */
  processorMs: number
}

export async function run(args: string[]): Promise<void> {
  const { values: options } = parseArgs({
    args,
    options: { mails: { type: 'string', default: '20000' }, rounds: { type: 'string', default: '3' } },
  })
  const [mails, rounds] = [Number(options.mails), Number(options.rounds)]
  await withCleanup(async (cleanup) => {
    const sink = startChild('../mails/sink.ts')
    onCleanup(cleanup, () => sink.stop())
    const { port } = await sink.ask<SinkReport>({})
    const rig = await startBacklog(cleanup, port)
    const rows: (string | number)[][] = []
    for (let round = 1; round <= rounds; round++) {
      const bare = await sendBare(port, mails)
      const store = await sendByStore(rig, sink, mails)
      rows.push([round, ...columns(bare), ...columns(store), (store.perSecond / bare.perSecond).toFixed(2)])
    }
    console.log(
      `\n${mails} mails of orders of three lines; one process of the role email with five connections; queueing and sending are timed.\n`,
    )
    printTable(['round', 'bare mails/s', 'CPU ms/mail', 'store mails/s', 'CPU ms/mail with PostgreSQL', 'ratio'], rows)
  })
}

function columns({ perSecond, processorMs }: Figures): string[] {
  return [perSecond.toFixed(0), processorMs.toFixed(2)]
}

async function sendBare(port: number, mails: number): Promise<Figures> {
  const mailer = startChild('../mails/bare-mailer.ts')
  try {
    const { seconds } = await mailer.ask<{ seconds: number }>({ port, mails } satisfies BareLoad)
    return { perSecond: mails / seconds, processorMs: (processorSeconds([mailer.pid]) / mails) * 1_000 }
  } finally {
    await mailer.stop()
  }
}

async function startBacklog(cleanup: Cleanup, port: number): Promise<Rig> {
  const rig = await startRig(cleanup, 'postgres', { SMTP_URL: `smtp://127.0.0.1:${port}`, MAIL_MAX_PER_HOUR: '0' })
  await rig.pool.query(
    `insert into users (id, email, password_hash, role)
    select uuidv7(), 'customer-' || i || '@example.com', 'none', 'customer' from generate_series(1, $1::int) as i`,
    [CUSTOMERS],
  )
  return rig
}

async function sendByStore(rig: Rig, sink: Child, mails: number): Promise<Figures> {
  const inTopic = await rig.countMessages()
  await commitOrders(rig, mails)
  const stream = await rig.startRole('stream')
  await eventually(async () => (await rig.countMessages()) >= inTopic + mails, { ...SELDOM, what: 'every event' })
  await stream.stop()
  const { mails: accepted } = await sink.ask<SinkReport>({})
  const usedBefore = processorSeconds([rig.postgresPid])
  const email = await rig.startRole('email')
  await eventually(async () => (await sink.ask<SinkReport>({})).mails >= accepted + mails, { ...SELDOM, what: 'every mail' })
  const { newestMs } = await sink.ask<SinkReport>({})
  const used = processorSeconds([email.pid, rig.postgresPid]) - usedBefore
  await email.stop()
  return { perSecond: mails / ((newestMs - email.activeAtMs) / 1_000), processorMs: (used / mails) * 1_000 }
}

/** By customers in turn. */
async function commitOrders({ pool }: Rig, orders: number): Promise<void> {
  const { items, history, productIds, total } = orderText(randomUUID())
  await pool.query(
    `insert into orders (id, user_id, status, items, total_amount, currency, status_history, product_ids, created_at, updated_at)
    select uuidv7(), buyer.id, 'pending', $1, $2, 'EUR', $3, $4, now(), now()
    from generate_series(1, $5::int) as i
    join (select id, row_number() over (order by id) as number from users) as buyer on buyer.number = 1 + i % $6::int`,
    [items, total, history, productIds, orders, CUSTOMERS],
  )
}
