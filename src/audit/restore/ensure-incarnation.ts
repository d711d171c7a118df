import type { Logger } from 'pino'
import { type Incarnation, listIncarnations, openIncarnation, readIdentity, UNRECONCILED } from '../../topic/incarnations.ts'
import { EPOCH_SEQUENCES, epochOf } from '../../topic/topic.ts'
import { type ComparedStores, type DataLoss, findDataLoss } from './find-data-loss.ts'

export interface IncarnationOptions extends ComparedStores {
  logger: Logger
  /** Why the database counts as restored whatever topic and lake have seen: it is known to be. */
  reason?: string
}

const MAX_ATTEMPTS = 5

/**
 * Whether this database is older than what topic and lake have seen, or another one than before: then it begins a new incarnation, in which
 * numbers, sequences and versions cannot be those of the time that was lost. Several processes may call it at once. To be called before
 * anything is taken, published or stored.
 */
export async function ensureIncarnation(options: IncarnationOptions): Promise<void> {
  const isNew = (await listIncarnations(options.pool)).length === 0
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) if (await isSettled(options, isNew)) return
  throw new Error('another process keeps opening incarnations of this database')
}

/** False when it has to be looked at again: something has been opened since. */
async function isSettled({ logger, reason, ...compared }: IncarnationOptions, isNew: boolean): Promise<boolean> {
  const incarnations = await listIncarnations(compared.pool)
  const newest = incarnations.at(-1) ?? null
  const identity = await readIdentity(compared.pool)
  if (newest === null) {
    await openIncarnation(compared.pool, { ...FIRST, identity })
    return false
  }
  const lost = await findDataLoss(compared, knownUpTo(incarnations), isNew || reason !== undefined || identity !== newest.identity)
  const why = describe(lost, newest, identity, reason)
  if (why === null) return true
  const isOpened = await openIncarnation(compared.pool, {
    expected: newest.number,
    identity,
    reason: why,
    publishedOrderNumber: lost?.orderNumber ?? 0,
    firstSequence: await chooseFirstSequence(compared, lost),
    lost: lost?.range ?? null,
    isReconciled: lost === null,
  })
  if (!isOpened) return false
  const known = { previous: newest.identity, identity, lostAfter: lost?.range.after, lostUpTo: lost?.range.upTo, examples: lost?.examples }
  if (lost === null)
    logger.warn({ ...known, reason: why }, 'this is another database than before: order numbers, versions and sequences have moved on')
  else logger.error({ ...known, reason: why }, `${UNRECONCILED}: run it; order numbers, versions and sequences have moved on`)
  return true
}

const FIRST = {
  expected: null,
  reason: 'the first that this release has seen',
  publishedOrderNumber: 0,
  firstSequence: 0,
  lost: null,
  isReconciled: true,
}

/** Up to which sequence topic and lake have been compared with the orders of an incarnation. */
export function knownUpTo(incarnations: readonly Incarnation[]): number {
  return incarnations.reduce((newest, { lost }) => Math.max(newest, lost?.upTo ?? 0), 0)
}

function describe(lost: DataLoss | null, newest: Incarnation, identity: string, reason: string | undefined): string | null {
  if (lost !== null) return `topic or lake have seen up to ${lost.end}, the database up to ${lost.range.after}`
  if (reason !== undefined) return reason
  return newest.identity === identity ? null : `the database was ${newest.identity} and is ${identity}`
}

/** A broker's stream goes on counting, unless the lake has seen a later one. */
async function chooseFirstSequence({ topic }: ComparedStores, lost: DataLoss | null): Promise<number> {
  const topicEnd = await topic.newestSequence()
  const end = Math.max(topicEnd, lost?.end ?? 0)
  return topic.isOutside && end === topicEnd ? 0 : (epochOf(end) + 1) * EPOCH_SEQUENCES + 1
}
