import type { Queryable } from '../db/pool.ts'

/** A change that no event can be made of. */
export interface ParkedChange {
  /** Of the event that there is none of. */
  eventId: string
  reason: string
  position: string
}

/** Writes down what the stream leaves out, so that it is not lost unnoticed: `storefront verify` tells of it until the topic has it. */
export async function parkChanges(db: Queryable, changes: readonly ParkedChange[]): Promise<void> {
  await db.query(
    `insert into parked_changes (event_id, reason, position)
    select distinct on (event_id) event_id, reason, position
    from unnest($1::text[], $2::text[], $3::text[]) as parked (event_id, reason, position)
    on conflict (event_id) do update set reason = excluded.reason, position = excluded.position`,
    [changes.map(({ eventId }) => eventId), changes.map(({ reason }) => reason), changes.map(({ position }) => position)],
  )
}

/** What was ever parked, also when it came to the topic later. */
export async function listParkedChanges(db: Queryable): Promise<{ event_id: string; reason: string }[]> {
  const { rows } = await db.query<{ event_id: string; reason: string }>('select event_id, reason from parked_changes order by event_id')
  return rows
}

/** Those of these event ids that were ever parked. */
export async function findParked(db: Queryable, eventIds: readonly string[]): Promise<Set<string>> {
  const { rows } = await db.query<{ event_id: string }>('select event_id from parked_changes where event_id = any($1)', [eventIds])
  return new Set(rows.map((row) => row.event_id))
}

/** How many wait for somebody to mend their row: those that never came to the topic. */
export async function countDeadLetters(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ parked: number }>(
    `select count(*) as parked
    from parked_changes as parked
    where not exists (select from topic_messages where id = parked.event_id)
      and not exists (
        select from order_event_deliveries
        where order_id = split_part(parked.event_id, '.', 1)::uuid
          and version = split_part(parked.event_id, '.', 2)::integer
          and published_at is not null
      )`,
  )
  return rows[0]?.parked ?? 0
}
