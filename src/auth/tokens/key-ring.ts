import type { CryptoKey } from 'jose'
import type { Logger } from 'pino'
import type { Pool } from '../../db/pool.ts'
import { eraseRetiredPrivateKeys, loadSigningKeys, readKeyState, type SigningKeys } from './signing-keys.ts'

// A key that was deleted verifies nothing a moment later …
const POLL_MS = 500
/** … and two seconds later at most: a look at the keys that began longer ago is not relied on. */
const FRESH_MS = 2_000
// Strangers can name keys that do not exist as often as they like: one question in this time and no more.
const MIN_ASK_MS = 100
/** RFC 7638: a SHA-256 thumbprint. */
const KEY_ID = /^[A-Za-z0-9_-]{43}$/

export interface KeyRingOptions {
  pool: Pool
  secret: string
  logger: Logger
}

/** The keys of access tokens as they are now: `storefront keys rotate`, time and operators can change them at any moment. */
export class KeyRing {
  readonly #options: KeyRingOptions
  #keys: SigningKeys
  /** Ids of `#keys` that have been deleted since, while what is left could not be loaded. */
  #deleted: ReadonlySet<string> = new Set()
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<unknown> | null = null
  #askedAt = Number.NEGATIVE_INFINITY
  /** When the last good look began, by performance.now(). */
  #lookedAt = Number.NEGATIVE_INFINITY

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
   * The public key with this id, undefined for none. One that is not known may be a moment old, made by another process: the database is
   * asked. So it is when the last look was too long ago to know that a key was not deleted; throws when it cannot be asked then.
   */
  async find(id: string): Promise<CryptoKey | undefined> {
    if (this.#known(id) !== undefined) {
      if (performance.now() - this.#lookedAt > FRESH_MS) await this.#lookOrThrow()
    } else if (KEY_ID.test(id)) {
      await this.#askForUnknown()
    }
    return this.#known(id)
  }

  start(): Promise<void> {
    this.#timer ??= setInterval(() => void this.#lookSoon(), POLL_MS)
    return Promise.resolve()
  }

  /** Idempotent, safe before start. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#looking
  }

  #known(id: string): CryptoKey | undefined {
    return this.#deleted.has(id) ? undefined : this.#keys.verifying.get(id)
  }

  async #askForUnknown(): Promise<void> {
    if (performance.now() - this.#askedAt >= MIN_ASK_MS) {
      this.#askedAt = performance.now()
      // One in progress may have begun before the key was made.
      await this.#looking
      void this.#lookSoon()
    }
    await this.#looking
  }

  async #lookOrThrow(): Promise<void> {
    const error = await this.#lookSoon()
    if (error !== null && performance.now() - this.#lookedAt > FRESH_MS) throw error
  }

  /** One look at a time, which never rejects: gives the error of one that failed, null for none. */
  #lookSoon(): Promise<unknown> {
    this.#looking ??= this.#look()
      .then(
        () => null,
        (error: unknown) => error,
      )
      .finally(() => {
        this.#looking = null
      })
    return this.#looking
  }

  async #look(): Promise<void> {
    const { pool, logger } = this.#options
    const beganAt = performance.now()
    let ids: string[]
    let currentId: string | undefined
    try {
      ;({ ids, currentId } = await readKeyState(pool))
    } catch (error) {
      logger.warn({ err: error }, 'could not look for new signing keys')
      throw error
    }
    const known = [...this.#keys.verifying.keys()]
    this.#deleted = new Set(known).difference(new Set(ids))
    this.#lookedAt = beganAt
    if (ids.join() !== known.join() || currentId !== this.#keys.current.id) await this.#load()
  }

  async #load(): Promise<void> {
    const { pool, secret, logger } = this.#options
    try {
      this.#keys = await loadSigningKeys(pool, secret)
      this.#deleted = new Set()
      logger.info(
        { event: 'signing_keys_changed', current: this.#keys.current.id, verifying: this.#keys.verifying.size },
        'took up other signing keys',
      )
      await eraseRetiredPrivateKeys(pool)
    } catch (error) {
      // The keys that are known and were not deleted stay good.
      logger.warn({ err: error }, 'could not look for new signing keys')
    }
  }
}
