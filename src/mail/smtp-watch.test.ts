import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { eventually } from '../../test/eventually.ts'
import { collectLog } from '../../test/logs.ts'
import { startSmtpServer } from '../../test/smtp-server.ts'
import type { Mail } from './mailer.ts'
import { createSmtpMailer } from './smtp-mailer.ts'
import { SmtpWatch } from './smtp-watch.ts'

const MAIL: Mail = { eventId: 'a.1', to: { address: 'ada@example.com', name: null }, subject: 'x', text: 'x', html: 'x', date: new Date() }
const FAST = { idleMs: 10, failingMs: 10 }

function watchServer(t: Parameters<typeof onCleanup>[0], url: string, pauses = FAST) {
  const { logger, entries: lines } = collectLog<{ level: number; msg: string; reason?: string; awaySeconds?: number }>()
  const clock = { now: Date.now() }
  const mailer = createSmtpMailer({ url, from: 'Store <store@example.com>' })
  const count = { probes: 0 }
  const probe = () => {
    count.probes++
    return mailer.probe()
  }
  const watch = new SmtpWatch({ mailer, probe, logger, now: () => new Date(clock.now), pauses })
  onCleanup(t, async () => {
    await watch.stop()
    await mailer.close()
  })
  const untilProbed = (times: number) => {
    const until = count.probes + times
    return eventually(async () => count.probes >= until, { what: 'more questions to the server' })
  }
  return { watch, lines, clock, count, untilProbed }
}

test('an outage of the server is reported once after a minute, and its end is reported once', async (t) => {
  const server = await startSmtpServer(t)
  const { watch, lines, clock, untilProbed } = watchServer(t, server.url)
  await watch.start()
  await untilProbed(3)
  assert.deepEqual([watch.isUp, watch.awayReason], [true, null])
  await server.stop()
  await eventually(async () => !watch.isUp, { what: 'the failure' })
  clock.now += 59_000
  await untilProbed(3)
  assert.deepEqual([watch.awayReason, lines], [null, []])
  clock.now += 1_000
  assert.match(watch.awayReason ?? '', /ECONNREFUSED/)
  await untilProbed(5)
  assert.deepEqual(
    lines.map(({ level, msg }) => [level, msg]),
    [[40, 'the mail server has been unavailable for a minute: mails wait']],
  )
  clock.now += 60_000
  await startSmtpServer(t, server.port)
  await eventually(async () => watch.isUp, { what: 'the recovery' })
  assert.equal(watch.awayReason, null)
  await untilProbed(3)
  const [, back, ...others] = lines
  assert.deepEqual([back?.level, back?.msg, back?.awaySeconds, others], [30, 'the mail server is back', 120, []])
})

test('an outage of less than a minute is not reported', async (t) => {
  const server = await startSmtpServer(t)
  const { watch, lines, clock } = watchServer(t, server.url)
  await server.stop()
  await watch.start()
  await eventually(async () => !watch.isUp, { what: 'the failure' })
  clock.now += 59_999
  await startSmtpServer(t, server.port)
  await eventually(async () => watch.isUp, { what: 'the recovery' })
  assert.deepEqual(lines, [])
})

test('a failed mail causes an immediate probe, and a sent or refused mail shows that the server is available', async (t) => {
  for (const code of [null, 550]) {
    const server = await startSmtpServer(t)
    const { watch, count } = watchServer(t, server.url, { idleMs: 3_600_000, failingMs: 3_600_000 })
    await watch.start()
    await watch.mailer.send(MAIL)
    assert.equal(count.probes, 0)
    await server.stop()
    await assert.rejects(watch.mailer.send(MAIL))
    await eventually(async () => !watch.isUp, { what: 'the failure' })
    const back = await startSmtpServer(t, server.port)
    if (code !== null) back.refuse(MAIL.to.address, { code, text: 'no such user' })
    const sending = watch.mailer.send(MAIL)
    await (code === null ? sending : assert.rejects(sending, { name: 'MailRefused' }))
    assert.deepEqual([watch.isUp, count.probes], [true, 1])
  }
})
