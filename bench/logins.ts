import { atRate, percentile, type StoreUnderLoad, startStoreUnderLoad } from './store-under-load.ts'

// Short turns, so that other load on the machine affects both alike.
const SECONDS = 3
const ROUNDS = 5
const PRODUCTS_PER_SECOND = 200
const LOGINS_PER_SECOND = 40
const GOAL = 3

const credentials = { email: 'bench@example.com', password: 'a long enough passphrase' }

/** p99 of GET /products while 40 logins a second run, against its p99 without them, in turns on one store. */
export async function run(): Promise<void> {
  const store = await startStoreUnderLoad()
  try {
    await expectStatus(store.call('POST', '/auth/register', credentials), 201)
    await readProducts(store, 3)
    const idle: number[] = []
    const busy: number[] = []
    const logins: number[] = []
    for (let round = 1; round <= ROUNDS; round++) {
      idle.push(...(await readProducts(store, SECONDS)))
      const [products, done] = await Promise.all([
        readProducts(store, SECONDS),
        atRate(LOGINS_PER_SECOND, SECONDS, () => expectStatus(store.call('POST', '/auth/login', credentials), 200)),
      ])
      busy.push(...products)
      logins.push(...done)
    }
    const ratio = percentile(busy, 0.99) / percentile(idle, 0.99)
    console.log(`GET /products at ${PRODUCTS_PER_SECOND}/s, idle:              ${describe(idle)}`)
    console.log(`GET /products beside ${LOGINS_PER_SECOND} logins/s:          ${describe(busy)}`)
    console.log(`POST /auth/login at ${LOGINS_PER_SECOND}/s:                   ${describe(logins)}`)
    console.log(`p99 beside logins / p99 idle: ${ratio.toFixed(2)} (goal: at most ${GOAL})`)
  } finally {
    await store.stop()
  }
}

function readProducts(store: StoreUnderLoad, seconds: number): Promise<number[]> {
  return atRate(PRODUCTS_PER_SECOND, seconds, () => expectStatus(store.call('GET', '/products?limit=20'), 200))
}

async function expectStatus(answer: ReturnType<StoreUnderLoad['call']>, expected: number): Promise<number> {
  const { status, ms } = await answer
  if (status !== expected) throw new Error(`expected ${expected}, got ${status}`)
  return ms
}

function describe(times: readonly number[]): string {
  return [0.5, 0.95, 0.99].map((share) => `p${share * 100} ${percentile(times, share).toFixed(2)} ms`).join(', ')
}
