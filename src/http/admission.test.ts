import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FastifyRequest } from 'fastify'
import { Admission } from './admission.ts'
import { type CostClass, REQUEST_COSTS } from './request-cost.ts'

const request = () => ({ getDecorator: () => undefined }) as unknown as FastifyRequest
const classes = Object.keys(REQUEST_COSTS) as CostClass[]
const limited = classes.filter((cost) => REQUEST_COSTS[cost].places !== null)

// This check also runs in every route's test, so the test of a route that takes two places fails.
test('a request that holds a place gets no second one, of any class, until it has returned the first', async () => {
  const admission = new Admission({ connections: 6, isByNetwork: false })
  for (const held of limited) {
    for (const cost of limited) {
      const [one, other] = [request(), request()]
      await admission.admit(held, one, async () => {
        await assert.rejects(
          admission.admit(cost, one, async () => assert.fail('a second place')),
          /holds a place/,
        )
        if (cost !== held) assert.equal(await admission.admit(cost, other, async () => 'other'), 'other')
      })
      assert.equal(await admission.admit(cost, one, async () => 'later'), 'later')
    }
    const failed = request()
    await assert.rejects(
      admission.admit(held, failed, () => Promise.reject(new Error('broken'))),
      /broken/,
    )
    assert.equal(await admission.admit(held, failed, async () => 'again'), 'again')
  }
})
