import type { WatchedStream } from '../change-stream/change-stream.ts'
import { findForeignReason, findLostReason } from '../change-stream/replication-slot.ts'
import { isTemporary } from '../db/failures.ts'
import { reasonOf } from '../db/loggable-error.ts'
import type { OpenDatabase } from '../db/open-database.ts'
import type { Pool } from '../db/pool.ts'
import type { ReadinessCheck } from '../http/health.ts'
import { findUnreconciledReason } from '../topic/incarnations.ts'
import type { Streams } from './create-streams.ts'
import type { RunningSubscribers } from './create-subscribers.ts'
import { catalogueSlotOf, orderSlotOf } from './prepare-database.ts'

/** Checks that the database answers and that this process's change streams work. */
export function readinessCheck(pool: Pool, streams: Streams | null, database: Pick<OpenDatabase, 'addresses' | 'failure'>): ReadinessCheck {
  return async () => {
    if (database.failure !== null) return [{ name: 'database', reason: `${database.failure}; it is started again with pauses` }]
    try {
      const lost = streams === null ? null : await findLostReason(pool, orderSlotOf(database.addresses.api))
      if (lost !== null) return [{ name: 'change_stream', reason: lost }]
      // The refill of this slot is not a failure, because customers lose nothing. The metric and the console report it.
      const foreign = streams === null ? null : await findForeignReason(pool, catalogueSlotOf(database.addresses.api))
      if (foreign !== null) return [{ name: 'catalogue_stream', reason: foreign }]
      const unreconciled = streams === null ? null : await findUnreconciledReason(pool)
      if (unreconciled !== null) return [{ name: 'restore', reason: unreconciled }]
      if (streams === null) await pool.query('select 1')
    } catch (error) {
      const what = isTemporary(error) ? 'the database does not answer' : 'the database cannot be asked'
      return [{ name: 'database', reason: `${what}: ${reasonOf(error)}` }]
    }
    const failing: { name: string; reason: string }[] = []
    const add = (name: string, what: string, { state, failure }: WatchedStream) => {
      if (state === 'failing') failing.push({ name, reason: `${what} cannot be read or published: ${causeOf(failure)}` })
    }
    if (streams !== null) add('change_stream', 'the change stream', streams.orders)
    if (streams !== null) add('catalogue_stream', 'the stream of the catalogue', streams.catalogue)
    return failing
  }
}

const BROKER_ERROR = /^(Connection|Timeout|NoResponders|Request|ClosedConnection|DrainingConnection|JetStream\w*)Error$/

/** The failed dependency, if the error names it, and its answer. A bucket's error names the bucket. */
function causeOf(error: unknown): string {
  const { name = '' } = (error ?? {}) as { name?: string }
  const isBucket = typeof error === 'object' && error !== null && '$metadata' in error
  const dependency = isBucket ? '' : BROKER_ERROR.test(name) ? 'NATS: ' : isTemporary(error) ? 'the database: ' : ''
  return dependency + reasonOf(error)
}

/** How long requests share a result. `/readyz` is public, and a check queries the database several times. */
const SHARED_MS = 200

export function shareChecks(check: ReadinessCheck): ReadinessCheck {
  let latest: ReturnType<ReadinessCheck> | undefined
  let beganAt = Number.NEGATIVE_INFINITY
  return () => {
    // The time counts from the beginning of a check, so a hanging check does not keep later requests waiting.
    if (latest === undefined || performance.now() - beganAt > SHARED_MS) {
      beganAt = performance.now()
      latest = check()
    }
    return latest
  }
}

/**
 * Adds the checks of the other roles. `secret` is null in a process where only the API uses the secret, because the API
 * continues with its keys.
 */
export function checkEveryRole(
  check: ReadinessCheck,
  running: RunningSubscribers,
  secret: { readonly isOutdated: boolean } | null,
): ReadinessCheck {
  return async () => {
    const { subscriptions, lake, mailServer } = running
    const failing = [...(await check())]
    const add = (name: string, reason: string) => failing.push({ name, reason })
    for (const [name, { state, failure }] of subscriptions)
      if (state === 'failing') add(`subscriber_${name}`, `the subscriber cannot read the topic or do its work: ${causeOf(failure)}`)
    const lakeFailure = (await lake?.findFailure()) ?? null
    if (lakeFailure !== null) add('lake', `the lake cannot be written: ${lakeFailure}`)
    const mailFailure = mailServer?.awayReason ?? null
    if (mailFailure !== null) add('mail_server', `the mail server has been unavailable for a minute: ${mailFailure}`)
    if (secret?.isOutdated === true) add('secret', "the store's secret was changed: restart the process with the new one")
    return failing
  }
}
