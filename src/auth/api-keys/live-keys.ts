import type { FreshCopies, FreshCopy } from '../../db/fresh-copies.ts'
import type { Queryable } from '../../db/pool.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { isAccountRole, isScope, permits, type Scope } from '../../http/scopes.ts'
import { withinMs } from '../../within-ms.ts'

/** Older copies are not used, so every process refuses a revoked key within a second. */
const MAX_AGE_MS = 1_000
/**
 * The most requests that wait with an unknown key. Further ones are refused at once, so invented keys cannot fill the
 * memory.
 */
const MAX_WAITING = 200

/** The data to check a request's key. */
export interface LiveKey {
  id: string
  secretHash: Buffer
  previous: { secretHash: Buffer; expiresAtMs: number } | null
  expiresAtMs: number | null
  /** The key's scopes that its maker still has. */
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
 * The valid keys in memory, so requests need no query. Excludes revoked keys and keys of deleted makers. While the copy
 * is not fresh, each request queries its key.
 */
export class LiveKeys {
  readonly #pool: Queryable
  readonly #copy: FreshCopy<{ changed: KeyRow[] }>
  #keys = new Map<string, LiveKey>()
  #waiting = 0

  constructor(copies: FreshCopies, pool: Queryable) {
    this.#pool = pool
    this.#copy = copies.add<{ changed: KeyRow[] }>({
      name: 'api_keys',
      columns: ['changed'],
      read: selectChanged,
      maxAgeMs: MAX_AGE_MS,
      learn: ({ changed }, { isWhole }) => this.#learn(changed, isWhole),
    })
  }

  /**
   * Returns undefined for a key that does not exist or is revoked. Does not check the expiry. Throws while the database
   * is unavailable.
   */
  async find(id: string): Promise<LiveKey | undefined> {
    if (!this.#copy.isFresh) return this.#readOne(id)
    const known = this.#keys.get(id)
    if (known !== undefined || this.#waiting >= MAX_WAITING) return known
    // Another process may have just made the key. All callers wait for the same poll.
    this.#waiting++
    const hasPolled = await withinMs(
      MAX_AGE_MS,
      this.#copy.nextPoll().then(() => true),
      false,
    )
    this.#waiting--
    return hasPolled && this.#copy.isFresh ? this.#keys.get(id) : this.#readOne(id)
  }

  /** Call after committing a key change and before answering. Polls that began before the change are ignored. */
  refresh(): Promise<void> {
    return this.#copy.refresh()
  }

  #learn(changed: readonly KeyRow[], isWhole: boolean): void {
    const keys = isWhole ? new Map<string, LiveKey>() : this.#keys
    for (const row of changed) {
      const key = toLiveKey(row)
      if (key === undefined) keys.delete(row.id)
      else keys.set(key.id, key)
    }
    this.#keys = keys
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

function selectChanged(since: string): Sql {
  return sql`select array(
      select json_build_object(
        'id', id, 'secret_hash', encode(secret_hash, 'hex'), 'previous_secret_hash', encode(previous_secret_hash, 'hex'),
        'previous_expires_ms', extract(epoch from previous_expires_at) * 1000, 'expires_ms', extract(epoch from expires_at) * 1000,
        'scopes', scopes, 'created_by', created_by, 'maker_role', (select role from users where id = api_keys.created_by),
        'is_revoked', revoked_at is not null)
      from api_keys
      where transaction_id >= ${since}::xid8
        and (${since} <> '0' or (revoked_at is null and (expires_at is null or expires_at > now() - interval '1 day')))
    ) as changed`
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

/** Commands have every scope; accounts have those of their current role. */
function isHeldBy(role: string | null): (scope: Scope) => boolean {
  return isAccountRole(role) ? (scope) => permits(role, scope) : () => true
}
