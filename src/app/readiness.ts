import type { ChangeStream } from '../change-stream/change-stream.ts'
import { findLostReason } from '../change-stream/replication-slot.ts'
import type { OpenDatabase } from '../db/open-database.ts'
import type { Pool } from '../db/pool.ts'
import type { ReadinessCheck } from '../http/health.ts'
import { findUnreconciledReason } from '../topic/incarnations.ts'
import type { Subscription } from '../topic/topic.ts'
import { orderSlotOf } from './prepare-database.ts'

/** Whether the API may get traffic: its database answers, and the change stream works if this process reads it. */
export function readinessCheck(
  pool: Pool,
  stream: ChangeStream | null,
  database: Pick<OpenDatabase, 'addresses' | 'failure'>,
): ReadinessCheck {
  return async () => {
    if (database.failure !== null) return [{ name: 'database', reason: `${database.failure}; it is started again with pauses` }]
    try {
      const lost = stream === null ? null : await findLostReason(pool, orderSlotOf(database.addresses.api))
      if (lost !== null) return [{ name: 'change_stream', reason: lost }]
      const unreconciled = stream === null ? null : await findUnreconciledReason(pool)
      if (unreconciled !== null) return [{ name: 'restore', reason: unreconciled }]
      if (stream === null) await pool.query('select 1')
    } catch {
      return [{ name: 'database', reason: 'the database does not answer' }]
    }
    return stream?.state === 'failing' ? [{ name: 'change_stream', reason: 'the change stream cannot be read or published' }] : []
  }
}

/** The failing subscribers of this process. */
export function failingSubscribers(subscriptions: ReadonlyMap<string, Subscription>): { name: string; reason: string }[] {
  return [...subscriptions]
    .filter(([, { state }]) => state === 'failing')
    .map(([name]) => ({ name: `subscriber_${name}`, reason: 'the subscriber cannot read the topic or do its work' }))
}

/** Whether the lake can be written, also while there are no events. */
export async function failingLake(lake: { findFailure(): Promise<string | null> } | null): Promise<{ name: string; reason: string }[]> {
  const reason = (await lake?.findFailure()) ?? null
  return reason === null ? [] : [{ name: 'lake', reason: `the lake cannot be written: ${reason}` }]
}

/** Whether the secret was changed after this process started. */
export function failingSecret(watch: { readonly isOutdated: boolean } | null): { name: string; reason: string }[] {
  return watch?.isOutdated === true
    ? [{ name: 'secret', reason: "the store's secret was changed: restart the process with the new one" }]
    : []
}

/** Whether the mail server has been unavailable for a minute. */
export function failingMailServer(watch: { readonly awayReason: string | null } | null): { name: string; reason: string }[] {
  const reason = watch?.awayReason ?? null
  return reason === null ? [] : [{ name: 'mail_server', reason: `the mail server has been unavailable for a minute: ${reason}` }]
}
