import { percentile, type StoreUnderLoad, startStoreUnderLoad } from './store-under-load.ts'

const TRIES = 500
const GOAL = 0.02

/** Times wrong logins for a known and an unknown address, one after the other in turns: can a stranger tell them apart? */
export async function run(): Promise<void> {
  const store = await startStoreUnderLoad({ RATE_LIMITS: 'off' })
  try {
    const known = 'known@example.com'
    await store.call('POST', '/auth/register', { email: known, password: 'a long enough passphrase' })
    const times = { known: [] as number[], unknown: [] as number[] }
    for (let i = -20; i < TRIES; i++) {
      // The order alternates, so that neither gains from the other's warm caches.
      const turn = i % 2 === 0 ? (['known', 'unknown'] as const) : (['unknown', 'known'] as const)
      for (const kind of turn) {
        const ms = await tryLogin(store, kind === 'known' ? known : 'ghost@example.com')
        if (i >= 0) times[kind].push(ms)
      }
    }
    const [knownMs, unknownMs] = [percentile(times.known, 0.5), percentile(times.unknown, 0.5)]
    const difference = Math.abs(knownMs - unknownMs) / Math.max(knownMs, unknownMs)
    console.log(`median of ${TRIES} wrong logins: known address ${knownMs.toFixed(3)} ms, unknown address ${unknownMs.toFixed(3)} ms`)
    console.log(`difference of medians: ${(difference * 100).toFixed(2)} % (goal: under ${GOAL * 100} %)`)
  } finally {
    await store.stop()
  }
}

async function tryLogin(store: StoreUnderLoad, email: string): Promise<number> {
  const { status, ms } = await store.call('POST', '/auth/login', { email, password: 'a wrong passphrase' })
  if (status !== 401) throw new Error(`expected 401, got ${status}`)
  return ms
}
