import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Fault, openRound } from '../faults/fault.ts'
import { FAULTS } from '../faults/faults.ts'
import { repeatMails } from '../faults/mail.ts'
import type { Round } from '../faults/round.ts'
import { runFault } from '../faults/run-fault.ts'
import { onCleanup } from './cleanup.ts'
import { eventually } from './eventually.ts'
import { DAILY_FAULTS, FAULT_TIMEOUT_MS, testRound } from './fault-round.ts'
import { isInShare } from './share.ts'

/** This fault runs every day: nothing else promotes a standby that lags beneath an API that sells. */
const EVERY_DAY = 'failover-lagging'

// A round waits for half of its time. With five at once on two cores beside other tests, servers came too late for
// the deadlines of the rounds.
describe('the short round', { concurrency: 3 }, () => {
  for (const [index, fault] of FAULTS.entries())
    if (fault.name === EVERY_DAY || (!DAILY_FAULTS.includes(fault.name) && isInShare(index))) testRound(fault)
  deliberateFaults()
})

/** Starts a round on a store with a deliberate fault. */
async function catchFault(t: { after(work: () => Promise<void> | void): void }, fault: string) {
  const round = await openRound({ name: fault, title: fault, run: async () => {} }, t, Math.random)
  await round.survive('email,lake')
  const broken = await round.start('stream', { FAULT: fault })
  round.shop.forgetsStock = fault === 'forget to return stock'
  onCleanup(t, () => broken.kill())
  return { round, broken }
}

async function judge(round: Round) {
  const { topicLost, topicDoubled, mailsLost, mailsGivenUp, mailDoubles, lakeLost, lakeDoubles, wrongStock } = await round.check()
  const counts = { topicLost, topicDoubled, mailsLost, mailsGivenUp, mailDoubles, lakeLost, lakeDoubles, wrongStock }
  const { findings } = await round.verify()
  return {
    independent: Object.entries(counts).flatMap(([name, count]) => (count > 0 ? name : [])),
    verify: findings.map(({ place, kind }) => `${place} ${kind}`),
  }
}

/** Returns when mails and lake lack exactly the events that the topic lacks: these are lost then, not late. */
async function untilLostOnward(round: Round): Promise<void> {
  await eventually(
    async () => {
      const { topicLost, mailsLost, mailsQueued, lakeLost } = await round.check()
      return mailsQueued === 0 && mailsLost === topicLost && lakeLost === topicLost
    },
    { what: 'what the topic has in mails and lake', pauseMs: 200, timeoutMs: 120_000 },
  )
}

/** Each must turn a check red. */
function deliberateFaults(): void {
  test('both checks catch a handler that confirms before it has published', { timeout: FAULT_TIMEOUT_MS }, async (t) => {
    const { round, broken } = await catchFault(t, 'ack before publish')
    await round.shop.trade(5)
    await broken.ended
    await round.start('stream')
    await round.shop.trade(1)
    await round.untilNewestOnTopic()
    await untilLostOnward(round)
    const { independent, verify } = await judge(round)
    assert.deepEqual(independent, ['topicLost', 'mailsLost', 'lakeLost'])
    assert.deepEqual(verify, ['topic missing'])
  })

  test('both checks catch a topic that does not dedupe', { timeout: FAULT_TIMEOUT_MS }, async (t) => {
    const { round } = await catchFault(t, 'no dedupe')
    await round.shop.placeTogether(3)
    await eventually(async () => (await round.countMessages()) === 6, { what: 'each event twice' })
    await round.drain()
    const { independent, verify } = await judge(round)
    assert.deepEqual(independent, ['topicDoubled'])
    assert.deepEqual(verify, ['topic doubled'])
  })

  test('both checks catch a handler that dedupes by the position in the log', { timeout: FAULT_TIMEOUT_MS }, async (t) => {
    const { round } = await catchFault(t, 'dedupe by LSN')
    await round.shop.placeTogether(1)
    await round.drain()
    await round.shop.placeTogether(3)
    await round.shop.trade(1)
    await round.untilNewestOnTopic()
    await untilLostOnward(round)
    const { independent, verify } = await judge(round)
    assert.deepEqual(independent, ['topicLost', 'mailsLost', 'lakeLost'])
    assert.deepEqual(verify, ['topic missing'])
  })

  test('customers see mails twice without the header, and once with it', { timeout: FAULT_TIMEOUT_MS }, async (t) => {
    const seed = Date.now() % 1_000_000
    const dropped = { with: 0, without: 0 }
    const faultWith = (sent: string | null, name: 'with' | 'without'): Fault => ({
      name: `keys ${name}`,
      title: `a server that drops repeated keys, ${name} the header`,
      async run(round, orders) {
        await repeatMails(round, orders, sent)
        await round.drain()
        dropped[name] = round.sink.dropped.count
      },
    })
    const options = { rounds: 1, orders: 10, seed, log: (line: string) => t.diagnostic(line) }
    // Together, because each waits until what the killed worker was sending may be sent again.
    const [without, withHeader] = await Promise.all([
      runFault(faultWith(null, 'without'), options),
      runFault(faultWith('Resend-Idempotency-Key', 'with'), options),
    ])
    assert.match(without.complaints.join(), /mailDoubles [1-9]/)
    assert.equal(dropped.without, 0)
    assert.deepEqual(withHeader.complaints, [])
    assert.ok(dropped.with > 0, 'mails were repeated, and dropped')
  })

  test('a round is red when mails are given up whose customer can be reached; verify counts them as settled', {
    timeout: FAULT_TIMEOUT_MS,
  }, async (t) => {
    const fault: Fault = {
      name: 'gives up',
      title: 'mails of a customer who can be reached are given up',
      async run(round, orders) {
        // The mail server refuses an address that exists, so the store gives up although the customer can be reached.
        round.sink.refusedAddress = round.shop.address
        await round.survive('stream,email,lake')
        await round.shop.placeTogether(orders)
      },
    }
    const seed = Date.now() % 1_000_000
    const result = await runFault(fault, { rounds: 1, orders: 3, seed, log: (line) => t.diagnostic(line) })
    assert.deepEqual(result.complaints, [`seed ${seed}: independent check: mailsGivenUp 3`])
    assert.equal(result.lost, 3)
  })

  test('the independent check catches a shop that forgets to return stock; verify knows nothing of stock', {
    timeout: FAULT_TIMEOUT_MS,
  }, async (t) => {
    const { round } = await catchFault(t, 'forget to return stock')
    while (round.shop.cancelled === 0) await round.shop.trade(5)
    await round.drain()
    const { independent, verify } = await judge(round)
    assert.deepEqual(independent, ['wrongStock'])
    assert.deepEqual(verify, [])
  })
}
