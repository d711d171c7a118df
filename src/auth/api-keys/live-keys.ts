import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import type { Queryable } from '../../db/pool.ts'
import { isAccountRole, isScope, permits, type Scope } from '../../http/scopes.ts'

/** An older poll is not relied on: a revoked key is refused everywhere after a second. */
const FRESH_MS = 1_000
const POLL_TIMEOUT_MS = 2_000
/** Requests that wait with a key that is not known yet. More are refused at once: made-up keys must not fill the memory. */
const MAX_WAITING = 200

/** What is needed to check a request. */
export interface LiveKey {
  id: string
  secretHash: Buffer
  previous: { secretHash: Buffer; expiresAtMs: number } | null
  expiresAtMs: number | null
  /** Those that its maker has now as well. */
  scopes: ReadonlySet<Scope>
}

interface KeyRow {
  id: string
  secret_hash: string
  previous_secret_hash: string | null
  previous_expires_ms: number | null
  expires_ms: number | null
  scopes: string[]
  created_by: string | null
  maker_role: string | null
  is_revoked: boolean
}

/**
 * The keys that are neither revoked nor without a maker, in memory: no request queries the database for its key. Changes are read a few times
 * a second, by transaction id as in `Revocations`, on its connection. While that fails, each request with a key queries that key.
 */
export class LiveKeys {
  readonly #pool: Queryable
  #keys = new Map<string, LiveKey>()
  /** The connection of the last poll: transaction ids belong to one server, so another one reads everything again. */
  #client: pg.Client | undefined
  #since = '0'
  /** Start of the last successful poll, by performance.now(). */
  #polledAt = Number.NEGATIVE_INFINITY
  #waiting = 0
  #nextPoll = Promise.withResolvers<void>()

  constructor(pool: Queryable) {
    this.#pool = pool
  }

  /** Undefined for a key that does not exist or is revoked. Its expiry is not checked. Throws while the database is unavailable. */
  async find(id: string): Promise<LiveKey | undefined> {
    if (!this.#isFresh()) return this.#readOne(id)
    const known = this.#keys.get(id)
    if (known !== undefined || this.#waiting >= MAX_WAITING) return known
    // Another process may just have made it: all who ask wait for the same poll.
    this.#waiting++
    const isLate = await Promise.race([this.#nextPoll.promise.then(() => false), delay(FRESH_MS, true, { ref: false })])
    this.#waiting--
    return isLate || !this.#isFresh() ? this.#readOne(id) : this.#keys.get(id)
  }

  /** Reads a key that this process has changed. Call it after the commit and before the answer. */
  async refresh(id: string): Promise<void> {
    const key = await this.#readOne(id)
    if (key === undefined) this.#keys.delete(id)
    else this.#keys.set(id, key)
  }

  /** Reads what has changed since the last poll on this connection. */
  async poll(client: pg.Client): Promise<void> {
    const isFirst = client !== this.#client
    const since = isFirst ? '0' : this.#since
    const beganAt = performance.now()
    const polled = this.#nextPoll
    this.#nextPoll = Promise.withResolvers<void>()
    try {
      const query: pg.QueryConfig & { query_timeout: number } = {
        name: 'api-keys',
        text: `select
            pg_snapshot_xmin(pg_current_snapshot())::text as next,
            array(
              select json_build_object(
                'id', id, 'secret_hash', encode(secret_hash, 'hex'), 'previous_secret_hash', encode(previous_secret_hash, 'hex'),
                'previous_expires_ms', extract(epoch from previous_expires_at) * 1000, 'expires_ms', extract(epoch from expires_at) * 1000,
                'scopes', scopes, 'created_by', created_by, 'maker_role', (select role from users where id = api_keys.created_by),
                'is_revoked', revoked_at is not null)
              from api_keys
              where transaction_id >= $1::xid8
                and ($1 <> '0' or (revoked_at is null and (expires_at is null or expires_at > now() - interval '1 day')))
            ) as changed`,
        values: [since],
        query_timeout: POLL_TIMEOUT_MS,
      }
      const { rows } = await client.query<{ next: string; changed: KeyRow[] }>(query)
      const [row] = rows
      if (row === undefined) return
      const keys = isFirst ? new Map<string, LiveKey>() : this.#keys
      for (const changed of row.changed) {
        const key = toLiveKey(changed)
        if (key === undefined) keys.delete(changed.id)
        else keys.set(key.id, key)
      }
      this.#keys = keys
      this.#client = client
      this.#since = row.next
      this.#polledAt = beganAt
    } finally {
      polled.resolve()
    }
  }

  #isFresh(): boolean {
    return performance.now() - this.#polledAt <= FRESH_MS
  }

  async #readOne(id: string): Promise<LiveKey | undefined> {
    const { rows } = await this.#pool.query<KeyRow>(
      `select
        id, encode(secret_hash, 'hex') as secret_hash, encode(previous_secret_hash, 'hex') as previous_secret_hash,
        (extract(epoch from previous_expires_at) * 1000)::float8 as previous_expires_ms,
        (extract(epoch from expires_at) * 1000)::float8 as expires_ms,
        scopes, created_by, (select role from users where id = api_keys.created_by) as maker_role, revoked_at is not null as is_revoked
      from api_keys
      where id = $1`,
      [id],
    )
    return rows[0] === undefined ? undefined : toLiveKey(rows[0])
  }
}

function toLiveKey(row: KeyRow): LiveKey | undefined {
  const isOrphan = row.created_by !== null && !isAccountRole(row.maker_role)
  if (row.is_revoked || isOrphan) return undefined
  const previous =
    row.previous_secret_hash === null
      ? null
      : { secretHash: Buffer.from(row.previous_secret_hash, 'hex'), expiresAtMs: row.previous_expires_ms ?? 0 }
  return {
    id: row.id,
    secretHash: Buffer.from(row.secret_hash, 'hex'),
    previous,
    expiresAtMs: row.expires_ms,
    scopes: new Set(row.scopes.filter(isScope).filter(isHeldBy(row.maker_role))),
  }
}

/** A command may do everything, an account what its role permits now. */
function isHeldBy(role: string | null): (scope: Scope) => boolean {
  return isAccountRole(role) ? (scope) => permits(role, scope) : () => true
}
