import type pg from 'pg'
import { abandonClient, connectClient } from '../db/pool.ts'
import { COMMAND_BOUNDS, type SessionBounds } from '../db/session-settings.ts'
import { literal, type Sql, sql } from '../db/sql.ts'
import { every } from '../loop.ts'
import { withinMs } from '../within-ms.ts'

// PostgreSQL ends the session, and releases its locks, when the process is dead, cut off or paused for this long.
const SESSION_TIMEOUT_MS = 5_000
const PING_MS = 2_500
/** A statement that waits holds up the pings and reads of all subscribers, and the server keeps their locks as long as it waits. */
const BOUNDS: SessionBounds = { ...COMMAND_BOUNDS, lock: 2_000, statement: 30_000 }

/** The text whose hash is the key of the advisory lock that the active process of a subscriber holds. */
export function subscriberLockKey(name: string): string {
  return `storefront subscriber ${name}`
}

/**
 * The lock sessions of a process, one after the other: the first subscriber opens one, the last closes it, and one that is lost is replaced.
 * `url` is the database's.
 */
export class LockSessions {
  readonly #url: string
  #current: LockSession | null = null

  constructor(url: string) {
    this.#url = url
  }

  /** The caller must `leave` it. */
  join(): LockSession {
    if (this.#current === null || this.#current.lost.aborted) this.#current = new LockSession(this.#url)
    this.#current.join()
    return this.#current
  }
}

/** A connection, kept alive by a ping, that holds the locks of all active subscribers in this process. */
export class LockSession {
  readonly client: Promise<pg.Client>
  readonly #lost = new AbortController()
  /** Aborts when the locks may be gone. */
  readonly lost = this.#lost.signal
  /** Subscribers that have the lock, or ask for it: in one session, PostgreSQL would give it to both of two. */
  readonly #held = new Set<string>()
  #users = 0
  #isSilent = false
  #isClosing = false

  constructor(url: string) {
    this.client = this.#open(url)
    this.client.catch(this.#lose)
  }

  async #open(url: string): Promise<pg.Client> {
    const client = await connectClient(url, 'storefront-subscribers', this.lost, BOUNDS)
    client.on('end', this.#lose)
    const endPings = every(PING_MS, () => void this.#orLose(client.query('select 1')))
    const end = () => {
      endPings()
      // The last handler is not awaited: until then the server may keep the locks.
      if (!this.#isClosing) abandonClient(client)
    }
    this.lost.addEventListener('abort', end)
    if (this.lost.aborted) end()
    await client.query(sql`set idle_session_timeout = ${literal(SESSION_TIMEOUT_MS)}`)
    return client
  }

  join(): void {
    this.#users++
  }

  /** Returns whether this subscriber has its lock now. When `signal` aborts it rejects at once; `leave` then releases the lock. */
  async tryLock(name: string, signal: AbortSignal): Promise<boolean> {
    if (this.#held.has(name)) return false
    this.#held.add(name)
    const { promise, reject } = Promise.withResolvers<never>()
    const abort = () => {
      this.#isSilent = true
      reject(signal.reason)
    }
    signal.addEventListener('abort', abort)
    try {
      const isLocked = await Promise.race([this.#tryLock(name), promise])
      if (!isLocked) this.#held.delete(name)
      return isLocked
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  async #tryLock(name: string): Promise<boolean> {
    const client = await this.client
    const { rows } = await client.query<{ locked: boolean }>(sql`select pg_try_advisory_lock(${keyOf(name)}) as locked`)
    return rows[0]?.locked === true
  }

  /** Releases the lock, so that another process may continue, and closes the session after the last subscriber. */
  async leave(name: string): Promise<void> {
    const isHeld = this.#held.delete(name)
    if (--this.#users === 0) return this.#close()
    if (isHeld && !this.lost.aborted)
      await this.#orLose(this.client.then((client) => client.query(sql`select pg_advisory_unlock(${keyOf(name)})`)))
  }

  async #close(): Promise<void> {
    this.#isClosing = !this.#isSilent && !this.lost.aborted
    this.#lose()
    const client = await this.client.catch(() => null)
    if (client === null || !this.#isClosing) return
    // Without the timeout this would wait forever for a server that is cut off.
    await withinMs(
      SESSION_TIMEOUT_MS,
      client.end().catch(() => {}),
      null,
    )
    abandonClient(client)
  }

  async #orLose(answer: Promise<unknown>): Promise<void> {
    const isAnswered = answer.then(
      () => true,
      () => false,
    )
    if (!(await withinMs(SESSION_TIMEOUT_MS, isAnswered, false))) this.#lose()
  }

  readonly #lose = (): void => this.#lost.abort()
}

const keyOf = (name: string): Sql => sql`hashtextextended(${subscriberLockKey(name)}, 0)`
