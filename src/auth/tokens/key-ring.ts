import type { CryptoKey } from 'jose'
import type { Logger } from 'pino'
import type { Pool } from '../../db/pool.ts'
import { eraseRetiredPrivateKeys, loadSigningKeys, readKeyState, type SigningKeys } from './signing-keys.ts'

// A deleted key verifies nothing after this time …
const POLL_MS = 500
/** … and after two seconds at most: an older check of the keys is not relied on. */
const FRESH_MS = 2_000
// Clients can name unknown keys at any rate: at most one query in this time.
const MIN_QUERY_MS = 100
/** RFC 7638: a SHA-256 thumbprint. */
const KEY_ID = /^[A-Za-z0-9_-]{43}$/

interface KeyRingOptions {
  pool: Pool
  secret: string
  logger: Logger
}

/** The current keys of access tokens, which `storefront signing-keys rotate`, time and operators can change at any moment. */
export class KeyRing {
  readonly #options: KeyRingOptions
  #keys: SigningKeys
  /** Ids of `#keys` that were deleted while the other keys could not be reloaded. */
  #deleted: ReadonlySet<string> = new Set()
  #timer: NodeJS.Timeout | undefined
  #checking: Promise<unknown> | null = null
  #queriedAt = Number.NEGATIVE_INFINITY
  /** Start of the last successful check, by performance.now(). */
  #checkedAt = Number.NEGATIVE_INFINITY

  constructor(keys: SigningKeys, options: KeyRingOptions) {
    this.#keys = keys
    this.#options = options
  }

  get current(): SigningKeys['current'] {
    return this.#keys.current
  }

  get jwks(): SigningKeys['jwks'] {
    return this.#keys.jwks
  }

  /**
   * The public key with this id, undefined for none. The database is queried for an unknown key, which another process may just have
   * created, and for a known one when the last check is too old to exclude its deletion; throws when that query fails.
   */
  async find(id: string): Promise<CryptoKey | undefined> {
    if (this.#known(id) !== undefined) {
      if (performance.now() - this.#checkedAt > FRESH_MS) await this.#checkOrThrow()
    } else if (KEY_ID.test(id)) {
      await this.#queryUnknown()
    }
    return this.#known(id)
  }

  start(): Promise<void> {
    this.#timer ??= setInterval(() => void this.#checkSoon(), POLL_MS)
    return Promise.resolve()
  }

  /** Idempotent, safe before start. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#checking
  }

  #known(id: string): CryptoKey | undefined {
    return this.#deleted.has(id) ? undefined : this.#keys.verifying.get(id)
  }

  async #queryUnknown(): Promise<void> {
    if (performance.now() - this.#queriedAt >= MIN_QUERY_MS) {
      this.#queriedAt = performance.now()
      // A check in progress may have begun before the key was created.
      await this.#checking
      void this.#checkSoon()
    }
    await this.#checking
  }

  async #checkOrThrow(): Promise<void> {
    const error = await this.#checkSoon()
    if (error !== null && performance.now() - this.#checkedAt > FRESH_MS) throw error
  }

  /** One check at a time. Never rejects: returns the error of a failed check, else null. */
  #checkSoon(): Promise<unknown> {
    this.#checking ??= this.#check()
      .then(
        () => null,
        (error: unknown) => error,
      )
      .finally(() => {
        this.#checking = null
      })
    return this.#checking
  }

  async #check(): Promise<void> {
    const { pool, logger } = this.#options
    const beganAt = performance.now()
    const { ids, currentId } = await readKeyState(pool).catch((error) => {
      logger.warn({ err: error }, 'could not look for new signing keys')
      throw error
    })
    const known = [...this.#keys.verifying.keys()]
    this.#deleted = new Set(known).difference(new Set(ids))
    this.#checkedAt = beganAt
    if (ids.join() !== known.join() || currentId !== this.#keys.current.id) await this.#load()
  }

  async #load(): Promise<void> {
    const { pool, secret, logger } = this.#options
    try {
      this.#keys = await loadSigningKeys(pool, secret)
      this.#deleted = new Set()
      logger.info(
        { event: 'signing_keys_changed', current: this.#keys.current.id, verifying: this.#keys.verifying.size },
        'loaded other signing keys',
      )
      await eraseRetiredPrivateKeys(pool)
    } catch (error) {
      // The known keys that were not deleted stay valid.
      logger.warn({ err: error }, 'could not look for new signing keys')
    }
  }
}
