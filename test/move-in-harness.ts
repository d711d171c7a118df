import { Passwords } from '../src/auth/passwords/password.ts'
import { importCustomers } from '../src/move-in/import-customers.ts'
import { importOrders } from '../src/move-in/import-orders.ts'
import { readJsonLines } from '../src/move-in/json-lines.ts'
import type { MoveInResult } from '../src/move-in/move-in.ts'
import { compareTallies } from '../src/move-in/tally.ts'
import { startStore, type TestStore } from './store.ts'

export type MovedIn = MoveInResult & { problems: string[]; isEqual: boolean }
type Settings = { source?: string; isDryRun?: boolean; dropsUnusableHashes?: boolean }

/** A file: objects become their JSON, buffers and texts are lines as they are. */
async function* fileOf(lines: readonly unknown[]): AsyncGenerator<Uint8Array> {
  for (const line of lines) {
    yield Buffer.isBuffer(line) ? line : Buffer.from(typeof line === 'string' ? line : JSON.stringify(line))
    yield Buffer.from('\n')
  }
}

export async function moveCustomersIn(
  store: Pick<TestStore, 'pool'>,
  lines: readonly unknown[],
  settings: Settings = {},
): Promise<MovedIn> {
  const passwords = new Passwords({ threads: 1, maxWaiting: 1 })
  return collect(settings, (options) =>
    importCustomers(store.pool, readJsonLines(fileOf(lines)), {
      ...options,
      dropsUnusableHashes: settings.dropsUnusableHashes ?? false,
      unmatchableHash: () => passwords.unmatchable(),
    }),
  )
}

export async function moveOrdersIn(store: Pick<TestStore, 'pool'>, lines: readonly unknown[], settings: Settings = {}): Promise<MovedIn> {
  return collect(settings, (options) =>
    importOrders(store.pool, () => readJsonLines(fileOf(lines)), { ...options, untilPublished: async () => {} }),
  )
}

type Run = (options: Parameters<typeof importOrders>[2] extends infer O ? Omit<O, 'untilPublished'> : never) => Promise<MoveInResult>

async function collect({ source = 'import', isDryRun = false }: Settings, run: Run): Promise<MovedIn> {
  const problems: string[] = []
  const onProblem = (line: number, reason: string) => void problems.push(`${line}: ${reason}`)
  const result = await run({ source, isDryRun, now: () => new Date(), onProblem })
  return { ...result, problems, isEqual: compareTallies(result.source, result.store).every((group) => group.isEqual) }
}

export const aCustomer = (id: string, overrides: object = {}) => ({ external_id: id, email: `${id}@example.com`, ...overrides })

/** An order of two units at 12.50 that was delivered in 2024. */
export const anOrder = (number: number, overrides: object = {}) => ({
  external_id: `gid-${number}`,
  number,
  customer: { external_id: 'ada' },
  currency: 'EUR',
  lines: [{ sku: 'LAMP', name: 'An old lamp', unit_price: 1_250, quantity: 2 }],
  total: 2_500,
  history: [
    { status: 'pending', at: '2024-02-29T10:00:00Z' },
    { status: 'confirmed', at: '2024-02-29T11:05:00+01:00' },
    { status: 'shipped', at: '2024-03-01T08:00:00Z', tracking: { carrier: 'DHL', number: '00340' } },
    { status: 'delivered', at: '2024-03-03T08:00:00.123Z' },
  ],
  ...overrides,
})

const BCRYPT = '$2y$10$abcdefghijklmnopqrstuuMjqeRRMw4ZKN8D5l6vArgO1H7dflcbO'

/** A store with the customers `ada`, whose password is "an old passphrase", and `ben`. */
export async function startMoved(t: Parameters<typeof startStore>[0], overrides: Parameters<typeof startStore>[1] = {}) {
  const store = await startStore(t, overrides)
  await moveCustomersIn(store, [aCustomer('ada', { password: BCRYPT }), aCustomer('ben')])
  return store
}
