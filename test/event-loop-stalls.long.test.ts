import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { RouteStalls } from './stalls/measure-stalls.ts'

// Processor time. `npm run bench -- stalls` shows less than 50 ms for each route; a test also runs on processors of
// half the speed.
const MAX_STALL_MS = 100
const OF_OURS = 500

/** Takes a third of the routes each day. `STALL_ROUTES` is a pattern for others. */
test('no request that the limits let in holds up the event loop for long, on any route', async (t) => {
  const main = fileURLToPath(new URL('./stalls/main.ts', import.meta.url))
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_TEST_CONTEXT: undefined },
  })
  t.after(() => child.kill())
  const exit = once(child, 'exit')
  let routes = 0
  for await (const line of createInterface({ input: child.stdout })) {
    const { route, stallMs, worst, statuses } = JSON.parse(line) as RouteStalls
    routes++
    assert.ok(stallMs < MAX_STALL_MS, `${route} is held up ${Math.round(stallMs)} ms by "${worst}"`)
    assert.equal(statuses[OF_OURS], undefined, `${route} answers ${JSON.stringify(statuses)}`)
    assert.ok(Object.keys(statuses).length > 1, `${route} answers ${JSON.stringify(statuses)}`)
  }
  assert.deepEqual(await exit, [0, null])
  assert.ok(routes > 0, 'at least one route is measured')
})
