import { randomUUIDv7 } from 'node:crypto'
import { type AuditContext, difference, recordActivity } from '../activity/record-activity.ts'
import type { Encryption, Reencrypt } from '../auth/store-secret.ts'
import { CATALOGUE_EVENT_TYPES } from '../catalogue/catalogue-event.ts'
import { BATCH_ROWS, inBatches } from '../db/in-batches.ts'
import type { Pool, Queryable, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError } from '../errors.ts'
import { ORDER_EVENT_TYPES } from '../orders/events.ts'
import { generateWebhookSecret } from './webhook-signature.ts'
import { assertPublicName, readWebhookUrl, toPrintableUrl, WebhookRefused } from './webhook-url.ts'

export const EVENT_TYPES: readonly string[] = [...ORDER_EVENT_TYPES, ...CATALOGUE_EVENT_TYPES]

/** A limit, because each event is queued for every endpoint. */
const MAX_ENDPOINTS = 100

/** The reason that is stored with a delivery that failed without an attempt. */
export const DISABLED = 'the endpoint was disabled'

export interface NewEndpoint {
  url: string
  /** The event types to send. Null for all order events, including those of later releases. */
  eventTypes: readonly string[] | null
  isPrivateAllowed: boolean
}

/**
 * Adds an endpoint, which gets all later events. The returned secret cannot be read again. Throws WebhookRefused,
 * `webhook_exists` and `too_many_webhooks`.
 */
export async function addEndpoint(
  pool: Pool,
  encryption: Encryption,
  endpoint: NewEndpoint,
  auditContext: AuditContext | null = null,
): Promise<{ id: string; secret: string }> {
  const url = await readUrl(endpoint)
  const unknown = endpoint.eventTypes?.find((type) => !EVENT_TYPES.includes(type))
  if (unknown !== undefined) throw new WebhookRefused(`there is no event ${unknown}; there are ${EVENT_TYPES.join(', ')}`)
  const id = randomUUIDv7()
  const secret = generateWebhookSecret()
  await inTransaction(pool, async (tx) => {
    const encrypted = await encryption.encrypt(tx, secret)
    await assertNoEqual(tx, id, url, endpoint.eventTypes)
    const { rows } = await tx.query<{ count: number }>('select count(*)::int as count from webhook_endpoints')
    if ((rows[0]?.count ?? 0) >= MAX_ENDPOINTS)
      throw new AppError('too_many_webhooks', `There are ${MAX_ENDPOINTS} webhook endpoints. Remove those that nothing uses.`)
    await tx.query(
      sql`insert into webhook_endpoints (id, url, event_types, sealed_secret) values (${id}, ${url}, ${endpoint.eventTypes}, ${encrypted})`,
    )
    await record(tx, auditContext, id, { before: null, after: { url: toPrintableUrl(url), event_types: endpoint.eventTypes } })
  })
  return { id, secret }
}

async function readUrl({ url, isPrivateAllowed }: Pick<NewEndpoint, 'url' | 'isPrivateAllowed'>): Promise<string> {
  const read = readWebhookUrl(url, isPrivateAllowed)
  if (!isPrivateAllowed) await assertPublicName(read)
  return read
}

/**
 * Changes the URL, or the event types for later events. Queued deliveries go to the new URL, which starts without
 * failures. Returns whether the endpoint exists. Throws WebhookRefused and `webhook_exists`.
 */
export async function changeEndpoint(
  pool: Pool,
  id: string,
  change: Partial<NewEndpoint> & Pick<NewEndpoint, 'isPrivateAllowed'>,
  auditContext: AuditContext,
): Promise<boolean> {
  const given = change.url === undefined ? null : await readUrl({ ...change, url: change.url })
  return inTransaction(pool, async (tx) => {
    const { rows } = await tx.query<Pick<ListedEndpoint, 'url' | 'event_types'>>(
      sql`select url, event_types from webhook_endpoints where id = ${id} for update`,
    )
    const [before] = rows
    if (before === undefined) return false
    const after = { url: given ?? before.url, event_types: change.eventTypes === undefined ? before.event_types : change.eventTypes }
    await assertNoEqual(tx, id, after.url, after.event_types)
    await tx.query(
      sql`update webhook_endpoints
      set url = ${after.url}, event_types = ${after.event_types},
        failing_since = case when url = ${after.url} then failing_since end
      where id = ${id}`,
    )
    const printed = { ...after, url: toPrintableUrl(after.url) }
    const differing = difference({ ...before, url: toPrintableUrl(before.url) }, printed)
    // A changed query may mean another receiver, but its text is not recorded.
    if (differing !== null) await record(tx, auditContext, id, differing)
    else if (after.url !== before.url)
      await record(tx, auditContext, id, { before: null, after: { url: printed.url, has_new_query: true } })
    return true
  })
}

async function record(
  tx: Transaction,
  auditContext: AuditContext | null,
  id: string,
  states: { before: object | null; after: object | null },
) {
  if (auditContext !== null) await recordActivity(tx, auditContext, { subjectType: 'webhook', subjectId: id, ...states })
}

/**
 * Throws `webhook_exists` if another endpoint has this URL and these events, in any order. Its receiver would get each
 * event twice, signed with two secrets. A lock serializes such changes until `tx` ends.
 */
async function assertNoEqual(tx: Transaction, id: string, url: string, eventTypes: NewEndpoint['eventTypes']): Promise<void> {
  await tx.query(sql`select pg_advisory_xact_lock(hashtextextended('storefront webhooks', 0))`)
  const { rows } = await tx.query<{ id: string }>(
    sql`select id
    from webhook_endpoints
    where url = ${url} and id <> ${id}
      and (event_types is null and ${eventTypes}::text[] is null or event_types @> ${eventTypes} and event_types <@ ${eventTypes})
    order by id
    limit 1`,
  )
  if (rows[0] === undefined) return
  throw new AppError('webhook_exists', `the endpoint ${rows[0].id} has this URL and these events already`, {
    members: { webhook_id: rows[0].id },
  })
}

const BOTH_SIGN_HOURS = 24

/**
 * Gives an endpoint a new secret and returns it; null if the endpoint does not exist. For 24 hours the new and the
 * previous secret both sign, so the receiver can change over. Older secrets no longer sign.
 */
export async function rotateSecret(
  pool: Pool,
  encryption: Encryption,
  id: string,
  now: Date,
  auditContext: AuditContext | null = null,
): Promise<string | null> {
  const secret = generateWebhookSecret()
  const until = new Date(now.getTime() + BOTH_SIGN_HOURS * 3_600_000)
  return inTransaction(pool, async (tx) => {
    const encrypted = await encryption.encrypt(tx, secret)
    const { rowCount } = await tx.query(
      sql`update webhook_endpoints
       set sealed_secret = ${encrypted}, previous_sealed_secret = sealed_secret, previous_secret_until = ${until}
       where id = ${id}`,
    )
    if (rowCount !== 1) return null
    await record(tx, auditContext, id, { before: null, after: { previous_secret_until: until } })
    return secret
  })
}

/**
 * Encrypts all secrets again. Returns their number, and the endpoints whose current secret cannot be decrypted and
 * stays.
 */
export async function reencryptSecrets(tx: Transaction, reencrypt: Reencrypt): Promise<{ reencrypted: number; undecryptable: string[] }> {
  const { rows } = await tx.query<{ id: string; present: string; previous: string | null }>(
    `select id, sealed_secret as present, previous_sealed_secret as previous
     from webhook_endpoints
     order by id
     for update`,
  )
  let reencrypted = 0
  const undecryptable: string[] = []
  for (const { id, present, previous } of rows) {
    const newPresent = reencrypt(present)
    const newPrevious = previous === null ? null : reencrypt(previous)
    if (newPresent === null) undecryptable.push(id)
    await tx.query(
      sql`update webhook_endpoints
       set sealed_secret = ${newPresent ?? present}, previous_sealed_secret = ${newPrevious ?? previous}
       where id = ${id}`,
    )
    reencrypted += [newPresent, newPrevious].filter((secret) => secret !== null).length
  }
  return { reencrypted, undecryptable }
}

/** Disables an endpoint, then deletes its deliveries, then the endpoint. Returns whether it existed. */
export async function removeEndpoint(pool: Pool, id: string, auditContext: AuditContext | null = null): Promise<boolean> {
  // Deliveries queued after this fail at once, so nothing more is posted and the deletion ends.
  await pool.query(
    sql`update webhook_endpoints set disabled_at = now(), disabled_reason = 'it is being removed' where id = ${id} and disabled_at is null`,
  )
  await inBatches(
    pool,
    sql`delete from webhook_deliveries where endpoint_id = ${id} and event_id = any(array(
    select event_id from webhook_deliveries where endpoint_id = ${id} limit ${BATCH_ROWS} for update skip locked
  ))`,
  )
  return inTransaction(pool, async (tx) => {
    const { rows } = await tx.query<Pick<ListedEndpoint, 'url' | 'event_types'>>(
      sql`delete from webhook_endpoints where id = ${id} returning url, event_types`,
    )
    if (rows[0] === undefined) return false
    await record(tx, auditContext, id, { before: { ...rows[0], url: toPrintableUrl(rows[0].url) }, after: null })
    return true
  })
}

/** Enables a disabled endpoint. Returns whether it exists. Missed deliveries are `failed` and can be redelivered. */
export async function enableEndpoint(pool: Pool, id: string, auditContext: AuditContext | null = null): Promise<boolean> {
  return inTransaction(pool, async (tx) => {
    const { rows } = await tx.query<{ disabled_at: Date | null; disabled_reason: string | null }>(
      sql`select disabled_at, disabled_reason from webhook_endpoints where id = ${id} for update`,
    )
    if (rows[0] === undefined) return false
    await tx.query(sql`update webhook_endpoints set disabled_at = null, disabled_reason = null, failing_since = null where id = ${id}`)
    const differing = difference(rows[0], { disabled_at: null, disabled_reason: null })
    if (differing !== null) await record(tx, auditContext, id, differing)
    return true
  })
}

export interface ListedEndpoint {
  id: string
  url: string
  event_types: string[] | null
  failing_since: Date | null
  disabled_at: Date | null
  /** Why the endpoint was disabled, or why its last delivery failed. */
  reason: string | null
  queued: number
  failed: number
}

const NO_ID = '00000000-0000-0000-0000-000000000000'
const LISTED = sql`select id, url, event_types, failing_since, disabled_at,
    coalesce(disabled_reason, case when failing_since is not null then failing_reason end) as reason,
    (select count(*) from webhook_deliveries where endpoint_id = endpoint.id and status = 'queued') as queued,
    (select count(*) from webhook_deliveries where endpoint_id = endpoint.id and status = 'failed') as failed
  from webhook_endpoints as endpoint`

export async function findEndpoint(db: Queryable, id: string): Promise<ListedEndpoint | null> {
  const { rows } = await db.query<ListedEndpoint>(sql`${LISTED} where id = ${id}`)
  return rows[0] ?? null
}

/** Lists the endpoints after the id `after`, the oldest first. */
export async function listEndpoints(
  db: Queryable,
  { after = NO_ID, limit = null }: { after?: string | undefined; limit?: number | null } = {},
): Promise<ListedEndpoint[]> {
  const { rows } = await db.query<ListedEndpoint>(sql`${LISTED} where id > ${after} order by id limit ${limit}`)
  return rows
}

export async function countEndpoints(db: Queryable) {
  const { rows } = await db.query<{ enabled: number; failing: number; disabled: number }>(
    `select
       count(*) filter (where disabled_at is null and failing_since is null) as enabled,
       count(*) filter (where disabled_at is null and failing_since is not null) as failing,
       count(*) filter (where disabled_at is not null) as disabled
     from webhook_endpoints`,
  )
  return rows[0] ?? { enabled: 0, failing: 0, disabled: 0 }
}

/** The columns of an endpoint that queueing an event needs. */
export interface Recipient {
  id: string
  event_types: string[] | null
  created_at: Date
  is_disabled: boolean
}

export async function hasEndpoints(db: Queryable): Promise<boolean> {
  const { rows } = await db.query('select from webhook_endpoints limit 1')
  return rows.length > 0
}

/** Returns all endpoints and locks them, so none is disabled or removed before `tx` ends. */
export async function lockRecipients(tx: Transaction): Promise<Recipient[]> {
  const { rows } = await tx.query<Recipient>(
    'select id, event_types, created_at, disabled_at is not null as is_disabled from webhook_endpoints for share',
  )
  return rows
}

export async function clearEndpointFailing(pool: Pool, id: string): Promise<void> {
  await pool.query('update webhook_endpoints set failing_since = null where id = $1 and failing_since is not null', [id])
}

/**
 * Records a failed delivery to this URL, with its reason. Returns when the endpoint began to fail without a success
 * since. Returns null if its URL was changed meanwhile.
 */
export async function recordEndpointFailing(
  pool: Pool,
  { id, url }: { id: string; url: string },
  now: Date,
  reason: string,
): Promise<Date | null> {
  const { rows } = await pool.query<{ failing_since: Date }>(
    `update webhook_endpoints
     set failing_since = coalesce(failing_since, $2), failing_reason = $3
     where id = $1 and url = $4
     returning failing_since`,
    [id, now, reason, url],
  )
  return rows[0]?.failing_since ?? null
}

/**
 * Disables an endpoint and fails its queued deliveries. If `url` is given, the endpoint must still have it. Returns
 * whether it was enabled. If this is interrupted, a worker fails the remaining deliveries.
 */
export async function disableEndpoint(
  pool: Pool,
  id: string,
  reason: string,
  now: Date,
  { auditContext = null, url = null }: { auditContext?: AuditContext | null; url?: string | null } = {},
): Promise<boolean> {
  const isDisabled = await inTransaction(pool, async (tx) => {
    // Waits for transactions that queue for this endpoint. Later ones queue nothing.
    const { rowCount } = await tx.query(
      sql`update webhook_endpoints set disabled_at = ${now}, disabled_reason = ${reason}
      where id = ${id} and disabled_at is null and (${url}::text is null or url = ${url})`,
    )
    const states = { before: { disabled_at: null }, after: { disabled_at: now, disabled_reason: reason } }
    if (rowCount === 1) await record(tx, auditContext, id, states)
    return rowCount === 1
  })
  await inBatches(
    pool,
    // Another process may enable it meanwhile.
    sql`update webhook_deliveries
    set status = 'failed', last_error = coalesce(last_error, ${DISABLED}), lease = null, leased_until = null
    where ctid = any(array(
      select delivery.ctid
      from webhook_deliveries as delivery
      join webhook_endpoints as endpoint on endpoint.id = delivery.endpoint_id
      where delivery.endpoint_id = ${id} and delivery.status = 'queued' and endpoint.disabled_at is not null
      limit ${BATCH_ROWS}
      for update of delivery skip locked
    ))`,
  )
  return isDisabled
}

export async function hasCatalogueEndpoints(pool: Pool): Promise<boolean> {
  const { rows } = await pool.query<{ has_any: boolean }>(
    sql`select exists (select from webhook_endpoints where event_types && ${CATALOGUE_EVENT_TYPES}::text[]) as has_any`,
  )
  return rows[0]?.has_any === true
}
