import type { Logger } from 'pino'
import { Polling } from '../auth/polling.ts'
import { isStoreSecret } from '../auth/store-secret.ts'
import type { Pool } from '../db/pool.ts'

const POLL_MS = 2_000

export interface SecretWatchOptions {
  pool: Pool
  secret: string
  logger: Logger
}

/** Notices that `storefront secret change` has run after this process started: what needs the secret waits until the next start. */
export class SecretWatch extends Polling {
  readonly #options: SecretWatchOptions
  #isOutdated = false

  constructor(options: SecretWatchOptions) {
    super(POLL_MS, options.logger, () => this.#check())
    this.#options = options
  }

  get isOutdated(): boolean {
    return this.#isOutdated
  }

  async #check(): Promise<void> {
    const { pool, secret, logger } = this.#options
    const isCurrent = await isStoreSecret(pool, secret)
    if (isCurrent !== this.#isOutdated) return
    this.#isOutdated = !isCurrent
    if (isCurrent) logger.info('this process has the secret of the store again')
    else
      logger.error("the store's secret was changed: webhooks and account mails of this process wait until it is restarted with the new one")
  }
}
