import type { Logger } from 'pino'
import { isStoreSecret } from '../auth/store-secret.ts'
import type { Pool } from '../db/pool.ts'
import type { Service } from './service.ts'

const POLL_MS = 2_000

export interface SecretWatchOptions {
  pool: Pool
  secret: string
  logger: Logger
}

/** Notices that `storefront secret change` has run since this process started: what needs the secret waits until it is started again. */
export class SecretWatch implements Service {
  readonly #options: SecretWatchOptions
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<void> | null = null
  #isOutdated = false

  constructor(options: SecretWatchOptions) {
    this.#options = options
  }

  get isOutdated(): boolean {
    return this.#isOutdated
  }

  async start(): Promise<void> {
    this.#timer ??= setInterval(() => {
      this.#looking ??= this.#look().finally(() => {
        this.#looking = null
      })
    }, POLL_MS)
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#looking
  }

  async #look(): Promise<void> {
    const { pool, secret, logger } = this.#options
    // A database that is away is others' to report.
    const isCurrent = await isStoreSecret(pool, secret).catch(() => null)
    if (isCurrent === null || isCurrent !== this.#isOutdated) return
    this.#isOutdated = !isCurrent
    if (isCurrent) logger.info('this process has the secret of the store again')
    else
      logger.error("the store's secret was changed: webhooks and account mails of this process wait until it is restarted with the new one")
  }
}
