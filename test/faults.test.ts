import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Fault, openRound } from '../faults/fault.ts'
import { FAULTS } from '../faults/faults.ts'
import { Skipped } from '../faults/lake.ts'
import type { Round } from '../faults/round.ts'
import { runFault } from '../faults/run-fault.ts'
import { onCleanup } from './cleanup.ts'

// The short round of `npm run faults`: each fault once. The seed is in the test's diagnostics.
const ORDERS = 12
const seed = Date.now() % 1_000_000

// Most of a round is waiting.
describe('the short round', { concurrency: 8 }, () => {
  for (const fault of FAULTS.filter(({ isLongOnly }) => !isLongOnly)) shortRound(fault)
  deliberateFaults()
})

function shortRound(fault: Fault): void {
  test(`loses and doubles nothing: ${fault.title}`, { timeout: 110_000 }, async (t) => {
    try {
      const result = await runFault(fault, { rounds: 1, orders: ORDERS, seed, log: (line) => t.diagnostic(line) })
      assert.deepEqual(result.complaints, [])
      assert.ok(result.orders >= ORDERS)
    } catch (error) {
      if (!(error instanceof Skipped)) throw error
      t.skip(error.message)
    }
  })
}

/** What each check says of a store with a deliberate fault, by the first words of its complaints. */
async function catchFault(t: { after(work: () => Promise<void> | void): void }, fault: string) {
  const round = await openRound({ name: fault, title: fault, run: async () => {} }, t, Math.random)
  await round.survive('email,lake')
  const broken = await round.start('stream', { FAULT: fault })
  round.shop.forgetsStock = fault === 'forget to return stock'
  onCleanup(t, () => broken.kill())
  return { round, broken }
}

async function judge(round: Round) {
  const { topicLost, topicDoubled, mailsLost, mailDoubles, lakeLost, lakeDoubles, wrongStock } = await round.check()
  const counts = { topicLost, topicDoubled, mailsLost, mailDoubles, lakeLost, lakeDoubles, wrongStock }
  const { findings } = await round.verify()
  return {
    independent: Object.entries(counts).flatMap(([name, count]) => (count > 0 ? name : [])),
    verify: findings.map(({ place, kind }) => `${place} ${kind}`),
  }
}

/** Each must turn a check red. */
function deliberateFaults(): void {
  test('both checks catch a handler that confirms before it has published', async (t) => {
    const { round, broken } = await catchFault(t, 'ack before publish')
    await round.shop.trade(5)
    await broken.ended
    await round.start('stream')
    await round.shop.placeTogether(1)
    await round.drain(2_000)
    const { independent, verify } = await judge(round)
    assert.ok(independent.includes('topicLost'), independent.join())
    assert.deepEqual(verify, ['topic missing'])
  })

  test('both checks catch a topic that does not dedupe', async (t) => {
    const { round } = await catchFault(t, 'no dedupe')
    await round.shop.placeTogether(3)
    await round.drain(20_000)
    const { independent, verify } = await judge(round)
    assert.deepEqual(independent, ['topicDoubled'])
    assert.deepEqual(verify, ['topic doubled'])
  })

  test('both checks catch a handler that dedupes by the position in the log', async (t) => {
    const { round } = await catchFault(t, 'dedupe by LSN')
    await round.shop.placeTogether(1)
    await round.drain(10_000)
    await round.shop.placeTogether(3)
    await round.shop.trade(1)
    await round.drain(3_000)
    const { independent, verify } = await judge(round)
    assert.ok(independent.includes('topicLost'), independent.join())
    assert.deepEqual(verify, ['topic missing'])
  })

  test('the independent check catches a shop that forgets to return stock; verify knows nothing of stock', async (t) => {
    const { round } = await catchFault(t, 'forget to return stock')
    await round.shop.trade(25)
    await round.drain(20_000)
    const { independent, verify } = await judge(round)
    assert.deepEqual(independent, ['wrongStock'])
    assert.deepEqual(verify, [])
  })
}
