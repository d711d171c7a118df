import type { CryptoKey } from 'jose'
import type { Logger } from 'pino'
import type { Pool } from '../db/pool.ts'
import { listSigningKeyIds, loadSigningKeys, type SigningKeys } from './signing-keys.ts'

const POLL_MS = 2_000
// Strangers can name keys that do not exist as often as they like: that many questions a second and no more.
const MIN_ASK_MS = 100
/** RFC 7638: a SHA-256 thumbprint. */
const KEY_ID = /^[A-Za-z0-9_-]{43}$/

export interface KeyRingOptions {
  pool: Pool
  secret: string
  logger: Logger
}

/** The keys of access tokens as they are now: `storefront keys rotate` can change them at any time. */
export class KeyRing {
  readonly #options: KeyRingOptions
  #keys: SigningKeys
  #timer: NodeJS.Timeout | undefined
  #reloading: Promise<void> | null = null
  #askedAt = Number.NEGATIVE_INFINITY

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

  /** The public key with this id. One that is not known may be a moment old, made by another process: the database is asked. */
  async find(id: string): Promise<CryptoKey | undefined> {
    const known = this.#keys.verifying.get(id)
    if (known !== undefined || !KEY_ID.test(id)) return known
    if (performance.now() - this.#askedAt >= MIN_ASK_MS) {
      this.#askedAt = performance.now()
      // One that is under way may have begun before the key was made.
      await this.#reloading
      this.#reloading ??= this.#reload()
    }
    await this.#reloading
    return this.#keys.verifying.get(id)
  }

  start(): Promise<void> {
    this.#timer ??= setInterval(() => {
      this.#reloading ??= this.#reload()
    }, POLL_MS)
    return Promise.resolve()
  }

  /** Idempotent, safe before start. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#reloading
  }

  async #reload(): Promise<void> {
    const { pool, secret, logger } = this.#options
    try {
      const ids = await listSigningKeyIds(pool)
      if (ids.join() === [...this.#keys.verifying.keys()].join()) return
      this.#keys = await loadSigningKeys(pool, secret)
      logger.info({ event: 'signing_keys_changed', current: this.#keys.current.id, verifying: ids.length }, 'took up other signing keys')
    } catch (error) {
      // The keys at hand stay good.
      logger.warn({ err: error }, 'could not look for new signing keys')
    } finally {
      this.#reloading = null
    }
  }
}
