import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Fault } from './fault.ts'
import type { Round } from './round.ts'

/** The header of Resend: https://resend.com/docs/dashboard/emails/idempotency-keys */
const KEY_HEADER = 'Resend-Idempotency-Key'

/**
 * The answer after DATA is lost, and the process is killed between sending a mail and recording it. The server drops
 * repeated keys. `sent` is the header that the store sends.
 */
export async function repeatMails(round: Round, orders: number, sent: string | null): Promise<void> {
  const settings: Record<string, string> = sent === null ? {} : { MAIL_IDEMPOTENCY_HEADER: sent }
  round.sink.idempotencyHeader = KEY_HEADER
  round.sink.cuts = 5
  await round.survive('stream,lake')
  const worker = await round.start('email', settings)
  const trading = round.shop.trade(orders)
  await pause(300 + round.random() * 600)
  // More mails lose their answer, because the process ends before it can record them.
  round.sink.cuts += 5
  await pause(round.random() * 300)
  await worker.kill()
  await trading
  await round.start('email', settings)
}

/** A mail server that is down, refuses, or disconnects, and a mail worker that dies. */
export const MAIL_FAULTS: Fault[] = [
  {
    name: 'smtp-down',
    title: 'SMTP server down',
    async run(round, orders) {
      await round.sink.setListening(false)
      await round.survive('stream,email,lake')
      await round.shop.trade(orders)
      await pause(round.random() * 1_000)
      await round.sink.setListening(true)
    },
  },
  {
    name: 'smtp-421',
    title: 'SMTP answers 421',
    async run(round, orders) {
      round.sink.fault = 'temporary refusal'
      await round.survive('stream,email,lake')
      await round.shop.trade(orders)
      await pause(round.random() * 1_000)
      round.sink.fault = 'none'
    },
  },
  {
    name: 'smtp-5xx',
    title: 'SMTP refuses one address permanently',
    async run(round, orders) {
      round.sink.refusedAddress = `${randomUUID()}@example.com`
      const userId = randomUUID()
      await round.shop.addCustomer(userId, round.sink.refusedAddress)
      round.shop.unreachable.add(userId)
      await round.survive('stream,email,lake')
      await round.shop.trade(orders)
    },
  },
  {
    name: 'smtp-cut',
    title: 'SMTP connection cut after DATA, before 250',
    mayRepeatMails: true,
    async run(round, orders) {
      round.sink.cuts = 5
      await round.survive('stream,email,lake')
      await round.shop.trade(orders)
    },
  },
  {
    name: 'smtp-keys',
    title: 'SMTP cut after DATA and kill -9 of the mail worker, with MAIL_IDEMPOTENCY_HEADER, at a server that drops repeated keys',
    run: (round, orders) => repeatMails(round, orders, KEY_HEADER),
  },
  {
    name: 'mail-worker',
    title: 'kill -9 of the mail worker',
    mayRepeatMails: true,
    async run(round, orders) {
      await round.survive('stream,lake')
      const worker = await round.start('email')
      const trading = round.shop.trade(orders)
      await pause(100 + round.random() * 400)
      await worker.kill()
      await trading
      await round.start('email')
    },
  },
]
