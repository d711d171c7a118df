import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { CatalogueEvent } from '../../catalogue/catalogue-event.ts'
import { findLakeEnd } from '../../lake/lake-end.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import {
  type Incarnation,
  type LostRange,
  listIncarnations,
  openIncarnation,
  readIdentity,
  recordLakeCompared,
  recordLakeLeftOut,
  UNRECONCILED,
} from '../../topic/incarnations.ts'
import { EPOCH_SEQUENCES, epochOf, type Topic, type TopicEvent } from '../../topic/topic.ts'
import { type ComparedStores, type DataLoss, findDataLoss } from './find-data-loss.ts'

export interface IncarnationOptions extends ComparedStores {
  catalogueTopic: Topic<CatalogueEvent>
  logger: Logger
  /** Why the database is known to be restored, whatever topic and lake contain. */
  reason?: string
  /** Compares also what the topic has passed since: an earlier comparison left the lake out. */
  isThorough?: boolean
  /**
   * Called with the error when the lake cannot be read. A database with the known identity is then compared with the topic alone; without this
   * function, and for any other database, the error is thrown.
   */
  onLakeAway?: (error: unknown) => void
}

const MAX_ATTEMPTS = 5

/**
 * Begins a new incarnation when topic or lake have events that this database has lost, or when it is another database than before. Order
 * numbers, sequences and versions of the new incarnation differ from those that were lost. Several processes may call it at once. Call it
 * before anything is accepted, published or stored.
 */
export async function ensureIncarnation(options: IncarnationOptions): Promise<void> {
  const isNew = (await listIncarnations(options.pool)).length === 0
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) if (await checkOnce(options, isNew)) return
  throw new Error('another process keeps opening incarnations of this database')
}

/** False when it must be called again, because an incarnation has been opened meanwhile. */
async function checkOnce(options: IncarnationOptions, isNew: boolean): Promise<boolean> {
  const { logger, reason, catalogueTopic, pool, topic } = options
  const compared = { pool, topic, lake: options.lake }
  const incarnations = await listIncarnations(compared.pool)
  const newest = incarnations.at(-1) ?? null
  const identity = await readIdentity(compared.pool)
  if (newest === null) {
    await openIncarnation(compared.pool, { expected: null, identity, reason: 'the first' })
    return false
  }
  const isKnown = !isNew && reason === undefined && identity === newest.identity && options.isThorough !== true
  const isThorough = !isKnown || incarnations.some(({ lakeLeftOutAt }) => lakeLeftOutAt !== null)
  if (options.lake !== null) {
    try {
      await assertAnswers(options.lake, isKnown ? LAKE_PATIENCE_MS : LONG_LAKE_PATIENCE_MS)
    } catch (error) {
      if (options.onLakeAway === undefined || !isKnown) throw error
      await recordLakeLeftOut(pool, newest)
      options.onLakeAway(error)
      compared.lake = null
    }
  }
  const lost = await findDataLoss(compared, knownUpTo(incarnations), isThorough)
  const comparedCatalogue = { ...compared, topic: catalogueTopic }
  const catalogueLost = await findDataLoss(comparedCatalogue, knownUpTo(incarnations, 'catalogueLost'), isThorough)
  if (isThorough && compared.lake !== null) await recordLakeCompared(pool, incarnations)
  const why = describe({ lost, catalogueLost, newest, identity, reason })
  if (why === null) return true
  const firstSequence = await chooseFirstSequence(compared, lost)
  const catalogueFirstSequence = await chooseFirstSequence(comparedCatalogue, catalogueLost)
  const isReconciled = lost === null && catalogueLost === null
  const isOpened = await openIncarnation(compared.pool, {
    expected: newest.number,
    identity,
    reason: why,
    publishedOrderNumber: lost?.orderNumber ?? 0,
    firstSequence,
    lost: await chooseLostRange(compared, lost, firstSequence),
    catalogueFirstSequence,
    catalogueLost: await chooseLostRange(comparedCatalogue, catalogueLost, catalogueFirstSequence),
    isReconciled,
  })
  if (!isOpened) return false
  const examples = [...(lost?.examples ?? []), ...(catalogueLost?.examples ?? [])]
  const known = { previous: newest.identity, identity, lost: lost?.range, catalogueLost: catalogueLost?.range, examples }
  if (isReconciled)
    logger.warn({ ...known, reason: why }, 'this is another database than before: order numbers, versions and sequences were advanced')
  else logger.error({ ...known, reason: why }, `${UNRECONCILED}: run it; order numbers, versions and sequences were advanced`)
  return true
}

/** A lake that does not answer must not hold up a start, or the events behind the slot. */
const LAKE_PATIENCE_MS = 5_000
/** The same where it cannot be left out: readiness then names it, and its caller retries. */
const LONG_LAKE_PATIENCE_MS = 60_000

/** Throws when the end of the lake cannot be read in time. */
async function assertAnswers(lake: LakeStore, patienceMs: number): Promise<void> {
  const isListed = await Promise.race([findLakeEnd(lake).then(() => true), delay(patienceMs, false, { ref: false })])
  if (!isListed) throw new Error(`the lake ${lake.locate('')} did not answer within ${patienceMs / 1_000} s`)
}

/** The sequence up to which topic and lake have been compared with the database, in the partition of orders or of the catalogue. */
export function knownUpTo(incarnations: readonly Incarnation[], partition: 'lost' | 'catalogueLost' = 'lost'): number {
  return incarnations.reduce((newest, { [partition]: range }) => Math.max(newest, range?.upTo ?? 0), 0)
}

interface Compared {
  lost: DataLoss | null
  catalogueLost: DataLoss | null
  newest: Incarnation
  identity: string
  reason: string | undefined
}

function describe({ lost, catalogueLost, newest, identity, reason }: Compared): string | null {
  if (lost !== null) return describeLoss(lost)
  if (catalogueLost !== null) return describeLoss(catalogueLost, 'events of the catalogue')
  if (reason !== undefined) return reason
  return newest.identity === identity ? null : `the database was ${newest.identity} and is ${identity}`
}

/** Ends with the earlier epoch, because the old database may still run and publish there. */
async function chooseLostRange<E extends TopicEvent>(
  { topic }: ComparedStores<E>,
  lost: DataLoss | null,
  firstSequence: number,
): Promise<LostRange | null> {
  if (firstSequence === 0) return lost?.range ?? null
  return { after: lost?.range.after ?? (await topic.newestSequence()), upTo: firstSequence - 1 }
}

/** How far topic or lake are ahead, in a sentence. */
export function describeLoss({ end, range }: DataLoss, what: 'events' | 'events of the catalogue' = 'events'): string {
  return `topic or lake have ${what} up to ${end}, the database up to ${range.after}`
}

/** 0 when a broker's stream can continue its sequences, because the lake has none of a later stream. */
async function chooseFirstSequence<E extends TopicEvent>({ topic }: ComparedStores<E>, lost: DataLoss | null): Promise<number> {
  const topicEnd = await topic.newestSequence()
  const end = Math.max(topicEnd, lost?.end ?? 0)
  return topic.isOutside && end === topicEnd ? 0 : (epochOf(end) + 1) * EPOCH_SEQUENCES + 1
}
