import type pg from 'pg'
import { abandonClient, connectClient } from '../db/pool.ts'
import { COMMAND_BOUNDS, type SessionBounds } from '../db/session-settings.ts'
import { literal, type Sql, sql } from '../db/sql.ts'
import { every } from '../loop.ts'
import { withinMs } from '../within-ms.ts'

// If a process is silent for this time, PostgreSQL ends its session and releases its locks.
const SESSION_TIMEOUT_MS = 5_000
const PING_MS = 2_500
/** A waiting statement delays the pings and reads of all subscribers while the server keeps their locks. */
const BOUNDS: SessionBounds = { ...COMMAND_BOUNDS, lock: 2_000, statement: 30_000 }

/** The text whose hash is the advisory lock key of a subscriber's active process. */
export function subscriberLockKey(name: string): string {
  return `storefront subscriber ${name}`
}

/**
 * The lock session of a process. The first subscriber opens it, the last one closes it, and a lost session is replaced.
 * `url` is the address of the database.
 */
export class LockSessions {
  readonly #url: string
  #current: LockSession | null = null

  constructor(url: string) {
    this.#url = url
  }

  /** The caller must `leave` the session. */
  join(): LockSession {
    if (this.#current === null || this.#current.lost.aborted) this.#current = new LockSession(this.#url)
    this.#current.join()
    return this.#current
  }
}

/** A connection that holds the locks of this process's active subscribers. Pings keep it alive. */
export class LockSession {
  readonly client: Promise<pg.Client>
  readonly #lost = new AbortController()
  /** Aborts when the locks may be lost. */
  readonly lost = this.#lost.signal
  /** Subscribers that hold or request their lock. PostgreSQL would grant one session the same lock twice. */
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
      // Nothing waits for the last handler, so the server may keep the locks until then.
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

  /**
   * Tries to take the lock of a subscriber. Returns whether the subscriber now has it. Rejects at once when `signal`
   * aborts; `leave` then releases the lock.
   */
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

  /** Releases the lock for other processes. Closes the session after the last subscriber. */
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
    // `client.end` would wait forever for an unreachable server.
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
