import type { CryptoKey } from 'jose'
import type { Logger } from 'pino'
import type { FreshCopies, FreshCopy } from '../../db/fresh-copies.ts'
import type { Pool } from '../../db/pool.ts'
import { AppError } from '../../errors.ts'
import { withinMs } from '../../within-ms.ts'
import { eraseRetiredPrivateKeys, KEY_STATES, type KeyState, keyState, loadSigningKeys, type SigningKeys } from './signing-keys.ts'

/** Older copies are not used, so a deleted key verifies nothing after this time. */
const MAX_AGE_MS = 2_000
// A caller may hold the connection that the load needs, so it does not wait without end.
const LOAD_PATIENCE_MS = 1_000
// Clients can send unknown key ids at any rate, so at most one query is sent in this time.
const MIN_QUERY_MS = 100
/** A SHA-256 thumbprint by RFC 7638. */
const KEY_ID = /^[A-Za-z0-9_-]{43}$/

interface KeyRingOptions {
  copies: FreshCopies
  pool: Pool
  secret: string
  logger: Logger
}

/**
 * The current access token keys, which `storefront signing-keys rotate`, time and operators can change at any moment.
 */
export class KeyRing {
  readonly #options: KeyRingOptions
  readonly #copy: FreshCopy<{ keys: KeyState[] }>
  #keys: SigningKeys
  /** The deleted ids in `#keys`, if the other keys could not be reloaded. */
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

  /**
   * The key that signs. Waits for the load of another if it was deleted, and throws `unavailable` if this process can
   * load none, as with an outdated secret.
   */
  async findCurrent(): Promise<SigningKeys['current']> {
    if (this.#deleted.has(this.#keys.current.id)) await withinMs(LOAD_PATIENCE_MS, this.#loading, undefined)
    if (this.#deleted.has(this.#keys.current.id))
      throw new AppError('unavailable', 'No signing key can be loaded. Retry later.', { headers: { 'retry-after': '5' } })
    return this.#keys.current
  }

  get jwks(): SigningKeys['jwks'] {
    return this.#keys.jwks
  }

  /**
   * The public key with this id; undefined if there is none. Queries the database for an unknown key, which another
   * process may have just created, and for a known key whose last check is too old to exclude its deletion. Throws if
   * the query fails.
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
    // Loads are serialized, since a load in progress may have begun before the change.
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
      // Known keys that were not deleted stay valid.
      logger.warn({ err: error }, 'could not look for new signing keys')
    }
  }
}
