import assert from 'node:assert/strict'
import { test } from 'node:test'
import { measureStalls } from './stalls/measure-stalls.ts'

const MAX_STALL_MS = 50
const OF_OURS = 500

test('no request that the limits let in holds up the event loop for 50 ms, on any route', async (t) => {
  const only = new RegExp(process.env.STALL_ROUTES ?? '.')
  for (const { route, stallMs, worst, statuses } of await measureStalls(t, { only })) {
    assert.ok(stallMs < MAX_STALL_MS, `${route} is held up ${Math.round(stallMs)} ms by "${worst}"`)
    assert.equal(statuses[OF_OURS], undefined, `${route} answers ${JSON.stringify(statuses)}`)
    assert.ok(Object.keys(statuses).length > 1, `${route} answers ${JSON.stringify(statuses)}`)
  }
})
