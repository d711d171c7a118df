import type { PriceList } from '../../catalogue/products.ts'
import { isSoldOut, lockStock, saveStock, takeStock } from '../../catalogue/stock.ts'
import { isTimeout } from '../../db/failures.ts'
import { isUnmet } from '../../db/insist.ts'
import type { Pool, Transaction } from '../../db/pool.ts'
import { inPipelinedTransaction, type Sent } from '../../db/transaction.ts'
import { AppError } from '../../errors.ts'
import { assertPendingOrders, lockPendingOrders } from '../pending-orders.ts'
import type { Caution } from './caution.ts'
import {
  type Decision,
  Desk,
  type Draft,
  type Findings,
  isSettled,
  NOTHING_FOUND,
  type OrderRequest,
  type Outcome,
  outcomeOf,
  type PlacedOrder,
} from './desk.ts'
import { findAnswers, insertAnswers, nameOfKey } from './idempotency.ts'
import { findOrdersByReference, insertOrders, nameOfReference } from './insert-orders.ts'
import { type LockedRows, type Rows, rowsAreLocked } from './locked-rows.ts'
import { PromisedStock } from './promised-stock.ts'
import { nameOfBuyer, readPurchases } from './purchases.ts'
import { insistOnLocks, tryLock, waitForLocks } from './request-locks.ts'

export interface PlacingOptions {
  pool: Pool
  now: () => Date
  /** The address of an order, for `Location`. */
  locationOf: (orderId: string) => string
  /** Null: no limit. */
  maxQuantityPerProductAndUser: number | null
  /** Null: no limit. */
  maxPendingOrdersPerUser: number | null
  prices: PriceList
  lockedRows: LockedRows
  /** With placing orders without a look at what there is. */
  caution: Caution
  /** A batch was undone and is placed again, with a look. */
  onUndone?: () => void
}

/** Each attempt but the first follows upon locked rows that were not known before. */
const MAX_ATTEMPTS = 4

/**
 * Places orders in one transaction, each accepted or refused on its own, in the order given. All that were accepted are committed
 * when it returns, none when it throws. Nothing is sent here: the pipeline reacts to the commit. A request that another process
 * has in hand comes back as `busy`, and one that needs a row which is locked for long as `blocked`. `onLocked` is called when the orders have
 * their numbers and all locks are held.
 *
 * First as if nothing stood in the way of any of them, and when that is not so, again with a look at what there is.
 */
export async function placeOrders(
  options: PlacingOptions,
  requests: readonly OrderRequest[],
  onLocked: () => void = () => {},
): Promise<Outcome[]> {
  const batch: Batch = { requests, names: requests.flatMap(namesOf(options)), rows: rowsOf(requests), onLocked }
  for (let attempt = 1; ; attempt++) {
    try {
      return await placeBatch(options, batch)
    } catch (error) {
      if (!isTimeout(error) || attempt === MAX_ATTEMPTS || !(await options.lockedRows.find(batch.rows))) throw error
    }
  }
}

async function placeBatch(options: PlacingOptions, batch: Batch): Promise<Outcome[]> {
  const { caution, lockedRows } = options
  const inBatch = (work: (tx: Transaction, begun: Promise<unknown>) => Promise<Sent<Outcome[]>>) =>
    inPipelinedTransaction(options.pool, work, { lockTimeoutMs: lockedRows.lockTimeoutMs })
  const canBePromised = !lockedRows.hasAny(batch.rows) && caution.tries()
  const promised = canBePromised ? await decideOnPromise(options, batch) : null
  if (promised !== null) {
    const outcomes = await inBatch((tx) => placeOptimistically(tx, options, batch, promised)).catch(nullIfThwarted)
    if (outcomes !== null) {
      caution.succeeded()
      return outcomes
    }
    caution.failed()
    options.onUndone?.()
  }
  return inBatch((tx, begun) => placePessimistically(tx, options, batch, { begun, locking: tryLock(tx, batch.names) }))
}

/**
 * Places one order, and waits for what somebody else has in hand, `waitMs` at most. Throws `request_in_progress` or `unavailable`
 * when that was not enough, and whatever the order is refused for.
 */
export async function placeOrder(options: PlacingOptions, request: OrderRequest, waitMs: number): Promise<PlacedOrder> {
  const lockTimeoutMs = Math.max(1, Math.ceil(waitMs))
  const batch: Batch = { requests: [request], names: namesOf(options)(request), rows: rowsOf([request]), onLocked() {} }
  const place = async (tx: Transaction, begun: Promise<unknown>) => {
    await begun
    await waitForLocks(tx, batch.names)
    return placePessimistically(tx, options, batch, { begun, locking: Promise.resolve(new Set()) })
  }
  const [outcome] = await inPipelinedTransaction(options.pool, place, { lockTimeoutMs }).catch(async (error) => {
    if (!isTimeout(error)) throw error
    await options.lockedRows.find(batch.rows)
    throw rowsAreLocked(error)
  })
  if (outcome?.kind === 'placed') return outcome.order
  if (outcome?.kind === 'refused') throw outcome.error
  if (outcome?.kind !== 'blocked') throw new Error('an order was left without an outcome')
  await outcome.untilFree(waitMs)
  throw rowsAreLocked()
}

/** The names of what no two transactions may have in hand at once. Products are not among them: their rows are locked. */
export function namesOf({ maxQuantityPerProductAndUser }: PlacingOptions) {
  return ({ userId, idempotencyKey, clientReference }: OrderRequest): string[] => {
    const locks: string[] = []
    if (idempotencyKey !== null) locks.push(nameOfKey(idempotencyKey))
    if (clientReference !== null) locks.push(nameOfReference(userId, clientReference))
    if (maxQuantityPerProductAndUser !== null) locks.push(nameOfBuyer(userId))
    return locks
  }
}

/** The rows that an order locks. */
function rowsOf(requests: readonly OrderRequest[]): Rows {
  return { products: productIdsOf(requests), customers: buyersOf(requests) }
}

interface Batch {
  requests: readonly OrderRequest[]
  /** Of `namesOf`, of all requests. */
  names: readonly string[]
  rows: Rows
  onLocked: () => void
}

/** What is decided as if no request came before, nobody else had one in hand, and there were more than enough of everything. */
interface Promised {
  decisions: Decision[]
  drafts: readonly Draft[]
  stock: PromisedStock
  pricesVersion: string
}

/** Null unless all requests can be accepted. Nothing is read where the products are known. */
async function decideOnPromise(options: PlacingOptions, { requests }: Batch): Promise<Promised | null> {
  // Purchases can only be counted under a lock.
  if (options.maxQuantityPerProductAndUser !== null) return null
  const { products, version } = await options.prices.read(options.pool, productIdsOf(requests))
  const stock = new PromisedStock(products)
  const desk = new Desk({ ...options, now: options.now() }, NOTHING_FOUND, { products, stock })
  const decisions: Decision[] = []
  for (const request of requests) {
    const decision = desk.decide(request)
    if (decision.kind === 'refused') return null
    decisions.push(decision)
  }
  return { decisions, drafts: desk.drafts, stock, pricesVersion: version }
}

/**
 * One round trip. The database holds what was promised to be so, or undoes the batch: see `nullIfThwarted`. Stock is locked only from being
 * taken until the commit.
 */
async function placeOptimistically(tx: Transaction, options: PlacingOptions, batch: Batch, promised: Promised): Promise<Sent<Outcome[]>> {
  const locking = insistOnLocks(tx, batch.names)
  const { numbers, statements } = write(tx, promised.drafts)
  const limit = options.maxPendingOrdersPerUser
  const counting = limit === null ? Promise.resolve() : assertPendingOrders(tx, buyersOf(batch.requests), limit)
  const taking = takeStock(tx, promised.stock.taken, promised.pricesVersion)
  taking.then(batch.onLocked, () => {})
  return { statements: [locking, ...statements, counting, taking], result: outcomesOf(promised.decisions, numbers) }
}

function nullIfThwarted(error: unknown): null {
  const isReferenceTaken = error instanceof AppError && error.code === 'client_reference_taken'
  if (isUnmet(error) || isSoldOut(error) || isReferenceTaken) return null
  throw error
}

/** Three round trips: what was there of the requests; stock, locked, and prices; all that is to be written with the commit. */
async function placePessimistically(
  tx: Transaction,
  options: PlacingOptions,
  { requests, onLocked }: Batch,
  { begun, locking }: { begun: Promise<unknown>; locking: Promise<ReadonlySet<string>> },
): Promise<Sent<Outcome[]>> {
  const { lockedRows } = options
  const blocked = new Set(requests.filter((request) => lockedRows.hasAny(rowsOf([request]))))
  const [, found] = await Promise.all([begun, find(tx, options, { requests, blocked }, locking)])
  // Nobody waits for the stock of an order that another process has in hand, that was placed already, or that is locked for long.
  const productIds = productIdsOf(requests.filter((request) => !blocked.has(request) && !isSettled(request, found)))
  // Prices come with the stock that may have been waited for.
  const [stock, products] = await Promise.all([lockStock(tx, productIds), options.prices.refresh(tx, productIds)])
  const desk = new Desk({ ...options, now: options.now() }, found, { products, stock })
  const decisions = requests.map((request): Decision => {
    if (!blocked.has(request) || isSettled(request, found)) return desk.decide(request)
    return { kind: 'blocked', untilFree: (ms) => lockedRows.untilFree(rowsOf([request]), ms) }
  })
  const { numbers, statements } = write(tx, desk.drafts)
  const saving = saveStock(tx, stock)
  // Those of the next batch get the next numbers.
  numbers.then(onLocked, () => {})
  return { statements: [...statements, saving], result: outcomesOf(decisions, numbers) }
}

async function find(
  tx: Transaction,
  options: PlacingOptions,
  { requests, blocked }: { requests: readonly OrderRequest[]; blocked: ReadonlySet<OrderRequest> },
  locking: Promise<ReadonlySet<string>>,
): Promise<Findings> {
  const { maxQuantityPerProductAndUser: limit, maxPendingOrdersPerUser: pendingLimit } = options
  const keys = requests.flatMap(({ idempotencyKey }) => idempotencyKey ?? [])
  const buyers = buyersOf(requests.filter((request) => !blocked.has(request)))
  // In the order of the statements: what depends on a lock is read after it.
  const [taken, answers, references, purchases, pending] = await Promise.all([
    locking,
    findAnswers(tx, keys),
    findOrdersByReference(tx, requests),
    limit === null ? null : readPurchases(tx, requests, limit),
    // Without a limit, too: the insert locks the counts, and they come before stock, as in every other transaction.
    lockPendingOrders(tx, buyers, pendingLimit ?? Number.POSITIVE_INFINITY),
  ])
  const isTaken = (request: OrderRequest) => taken.size > 0 && namesOf(options)(request).some((name) => taken.has(name))
  return { isTaken, answers, references, purchases, pending }
}

/** Sends what writes the accepted orders. `numbers` are those that they were given. */
function write(tx: Transaction, drafts: readonly Draft[]) {
  const answers = drafts.flatMap(({ key, order, frame }) => (key === null ? [] : [{ key, orderId: order.id, frame }]))
  const inserting = insertOrders(tx, drafts)
  return { numbers: inserting, statements: [inserting, insertAnswers(tx, answers)] }
}

function outcomesOf(decisions: readonly Decision[], numbers: Promise<ReadonlyMap<string, string>>) {
  return async () => {
    const drawn = await numbers
    return decisions.map((decision) => outcomeOf(decision, drawn))
  }
}

function buyersOf(requests: readonly OrderRequest[]): string[] {
  return [...new Set(requests.map(({ userId }) => userId))]
}

function productIdsOf(requests: readonly OrderRequest[]): string[] {
  return [...new Set(requests.flatMap(({ basket }) => basket.lines.map((line) => line.product_id)))]
}
