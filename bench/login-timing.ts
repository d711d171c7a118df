import { withCleanup } from '../test/cleanup.ts'
import { median } from './rig/measurement.ts'
import { register } from './rig/shop.ts'
import { openStore } from './rig/store.ts'

const TRIES = 500
const GOAL = 0.02

/**
 * Measures the times of wrong logins for a known and an unknown address in turns, to see whether a stranger can tell
 * them apart.
 */
export async function run(): Promise<void> {
  await withCleanup(async (cleanup) => {
    const store = await openStore(cleanup)
    const { port } = await store.start('api')
    const known = 'known@example.com'
    await register(port, { email: known, password: 'a long enough passphrase' })
    const times = { known: [] as number[], unknown: [] as number[] }
    for (let i = -20; i < TRIES; i++) {
      // The order alternates, so neither gains from the other's warm caches.
      const turn = i % 2 === 0 ? (['known', 'unknown'] as const) : (['unknown', 'known'] as const)
      for (const kind of turn) {
        const ms = await tryLogin(port, kind === 'known' ? known : 'ghost@example.com')
        if (i >= 0) times[kind].push(ms)
      }
    }
    const [knownMs, unknownMs] = [median(times.known), median(times.unknown)]
    const difference = Math.abs(knownMs - unknownMs) / Math.max(knownMs, unknownMs)
    console.log(`median of ${TRIES} wrong logins: known address ${knownMs.toFixed(3)} ms, unknown address ${unknownMs.toFixed(3)} ms`)
    console.log(`difference of medians: ${(difference * 100).toFixed(2)} % (goal: under ${GOAL * 100} %)`)
  })
}

async function tryLogin(port: number, email: string): Promise<number> {
  const beganAt = performance.now()
  const body = JSON.stringify({ email, password: 'a wrong passphrase' })
  const answer = await fetch(`http://127.0.0.1:${port}/auth/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  })
  await answer.arrayBuffer()
  if (answer.status !== 401) throw new Error(`expected 401, got ${answer.status}`)
  return performance.now() - beganAt
}
