import type { CryptoKey } from 'jose'
import type { Logger } from 'pino'
import type { FreshCopies, FreshCopy } from '../../db/fresh-copies.ts'
import type { Pool } from '../../db/pool.ts'
import { eraseRetiredPrivateKeys, KEY_STATES, type KeyState, keyState, loadSigningKeys, type SigningKeys } from './signing-keys.ts'

/** A deleted key verifies nothing after this time: an older check of the keys is not relied on. */
const MAX_AGE_MS = 2_000
// Clients can name unknown keys at any rate: at most one query in this time.
const MIN_QUERY_MS = 100
/** RFC 7638: a SHA-256 thumbprint. */
const KEY_ID = /^[A-Za-z0-9_-]{43}$/

interface KeyRingOptions {
  copies: FreshCopies
  pool: Pool
  secret: string
  logger: Logger
}

/** The current keys of access tokens, which `storefront signing-keys rotate`, time and operators can change at any moment. */
export class KeyRing {
  readonly #options: KeyRingOptions
  readonly #copy: FreshCopy<{ keys: KeyState[] }>
  #keys: SigningKeys
  /** Ids of `#keys` that were deleted while the other keys could not be reloaded. */
  #deleted: ReadonlySet<string> = new Set()
  #state: ReturnType<typeof keyState> | null = null
  #loading: Promise<void> = Promise.resolve()
  #querying: Promise<void> = Promise.resolve()
  #queriedAt = Number.NEGATIVE_INFINITY

  constructor(keys: SigningKeys, options: KeyRingOptions) {
    this.#keys = keys
    this.#options = options
    this.#copy = options.copies.add<{ keys: KeyState[] }>({
      name: 'signing_keys',
      columns: ['keys'],
      read: () => KEY_STATES,
      maxAgeMs: MAX_AGE_MS,
      learn: ({ keys }) => this.#learn(keys),
    })
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
    if (this.#known(id) !== undefined) await this.#copy.ensureFresh()
    else if (KEY_ID.test(id)) await this.#queryUnknown()
    return this.#known(id)
  }

  #known(id: string): CryptoKey | undefined {
    return this.#deleted.has(id) ? undefined : this.#keys.verifying.get(id)
  }

  async #queryUnknown(): Promise<void> {
    if (performance.now() - this.#queriedAt >= MIN_QUERY_MS) {
      this.#queriedAt = performance.now()
      this.#querying = this.#copy.look()
    }
    await this.#querying
  }

  async #learn(states: readonly KeyState[]): Promise<void> {
    this.#state = keyState(states)
    this.#deleted = new Set(this.#keys.verifying.keys()).difference(new Set(this.#state.ids))
    // Loads follow one another: a load in progress may have begun before the change.
    this.#loading = this.#loading.then(() => (this.#isCurrent ? undefined : this.#load()))
    await this.#loading
  }

  get #isCurrent(): boolean {
    return this.#state?.ids.join() === [...this.#keys.verifying.keys()].join() && this.#state.currentId === this.#keys.current.id
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
