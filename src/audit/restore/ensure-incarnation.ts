import type { Logger } from 'pino'
import type { CatalogueEvent } from '../../catalogue/catalogue-event.ts'
import { confirmIncarnation } from '../../db/confirm-incarnation.ts'
import { readIdentity } from '../../db/database-id.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import { findLakeEnd } from '../../lake/list-files.ts'
import {
  completeIncarnation,
  type Incarnation,
  type LostRange,
  listIncarnations,
  openIncarnation,
  recordLakeCompared,
  recordLakeLeftOut,
  UNRECONCILED,
} from '../../topic/incarnations.ts'
import { EPOCH_SEQUENCES, epochOf, type Topic, type TopicEvent } from '../../topic/topic.ts'
import { withinMs } from '../../within-ms.ts'
import { type ComparedStores, type DataLoss, findDataLoss } from './find-data-loss.ts'

export interface IncarnationOptions extends ComparedStores {
  catalogueTopic: Topic<CatalogueEvent>
  logger: Logger
  /** Why the database is known to be restored, whatever topic and lake contain. */
  reason?: string
  /** An earlier comparison left the lake out, so later events of the topic count, too. */
  isThorough?: boolean
  /** A process without a lake leaves the comparison to one that has it. */
  mayLackLake?: boolean
  /** A database with the known identity is then compared with the topic alone. Otherwise the error is thrown. */
  onLakeAway?: (error: unknown) => void
}

const MAX_ATTEMPTS = 5

/**
 * Begins or completes an incarnation if the topic or the lake has events that the database has lost. Several processes
 * may call it at once. It must be called before anything is published or stored.
 */
export async function ensureIncarnation(options: IncarnationOptions): Promise<void> {
  await confirmIncarnation(options.pool)
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) if (await checkOnce(options)) return
  throw new Error('another process keeps opening incarnations of this database')
}

/**
 * Returns false if another process has opened or completed an incarnation meanwhile. The caller must then try again.
 */
async function checkOnce(options: IncarnationOptions): Promise<boolean> {
  const { logger, reason, catalogueTopic, pool, topic } = options
  const compared = { pool, topic, lake: options.lake }
  const incarnations = await listIncarnations(pool)
  const newest = incarnations.at(-1)
  if (newest === undefined) throw new Error('the database has no incarnation, which the first connection begins')
  const isKnown = newest.isCompared && reason === undefined && options.isThorough !== true
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
  const isReconciled = lost === null && catalogueLost === null
  const isFirst = newest.number === 0
  const why = describe({ lost, catalogueLost, reason })
  // Before the first incarnation nothing can have been given out twice.
  if (why === null && isFirst && !newest.isCompared) return completeIncarnation(pool, newest.number, {})
  if (why === null && newest.isCompared) return true
  if (why === null && options.lake === null && options.mayLackLake === true) return true
  const firstSequence = await chooseFirstSequence(compared, lost)
  const catalogueFirstSequence = await chooseFirstSequence(comparedCatalogue, catalogueLost)
  const comparison = {
    publishedOrderNumber: lost?.orderNumber ?? 0,
    firstSequence,
    lost: await chooseLostRange(compared, lost, firstSequence),
    catalogueFirstSequence,
    catalogueLost: await chooseLostRange(comparedCatalogue, catalogueLost, catalogueFirstSequence),
    isReconciled,
  }
  // An operator's reason may be newer than an uncompared incarnation.
  const isBegun = !newest.isCompared && !isFirst && reason === undefined
  const isDone = isBegun
    ? await completeIncarnation(pool, newest.number, comparison)
    : await openIncarnation(pool, { expected: newest.number, identity: await readIdentity(pool), reason: why ?? '', ...comparison })
  if (!isDone) return false
  const examples = [...(lost?.examples ?? []), ...(catalogueLost?.examples ?? [])]
  const known = { lost: lost?.range, catalogueLost: catalogueLost?.range, examples, reason: why ?? undefined }
  if (isReconciled) logger.info(known, 'topic and lake have no event that this database lacks')
  else logger.error(known, `${UNRECONCILED}: run it; order numbers, versions and sequences were advanced`)
  return true
}

/** A lake that does not answer must not hold up a start, or the events behind the slot. */
const LAKE_PATIENCE_MS = 5_000
/** The wait if the comparison needs the lake. Readiness then names the lake, and the caller retries. */
const LONG_LAKE_PATIENCE_MS = 60_000

async function assertAnswers(lake: LakeStore, patienceMs: number): Promise<void> {
  const isListed = await withinMs(
    patienceMs,
    findLakeEnd(lake).then(() => true),
    false,
  )
  if (!isListed) throw new Error(`the lake ${lake.locate('')} did not answer within ${patienceMs / 1_000} s`)
}

/** The compared sequence of the partition of orders or of the catalogue. */
export function knownUpTo(incarnations: readonly Incarnation[], partition: 'lost' | 'catalogueLost' = 'lost'): number {
  return incarnations.reduce((newest, { [partition]: range }) => Math.max(newest, range?.upTo ?? 0), 0)
}

interface Compared {
  lost: DataLoss | null
  catalogueLost: DataLoss | null
  reason: string | undefined
}

function describe({ lost, catalogueLost, reason }: Compared): string | null {
  if (lost !== null) return describeLoss(lost)
  if (catalogueLost !== null) return describeLoss(catalogueLost, 'events of the catalogue')
  return reason ?? null
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

export function describeLoss({ end, range }: DataLoss, what: 'events' | 'events of the catalogue' = 'events'): string {
  return `topic or lake have ${what} up to ${end}, the database up to ${range.after}`
}

/** 0 when a broker's stream can continue its sequences, because the lake has none of a later stream. */
async function chooseFirstSequence<E extends TopicEvent>({ topic }: ComparedStores<E>, lost: DataLoss | null): Promise<number> {
  const topicEnd = await topic.newestSequence()
  const end = Math.max(topicEnd, lost?.end ?? 0)
  return topic.isOutside && end === topicEnd ? 0 : (epochOf(end) + 1) * EPOCH_SEQUENCES + 1
}
