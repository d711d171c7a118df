import type { Logger } from 'pino'
import type { Queryable } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { OperatorError } from '../../errors.ts'

const POLL_MS = 2_000

/** Another process of the API has another BASE_URL: they would refuse each other's tokens. */
class IssuerDiffers extends OperatorError {
  override readonly name = 'IssuerDiffers'
}

export interface IssuerSettings {
  baseUrl: string
  /** Whether `baseUrl` was set, and not made up of the port. */
  isBaseUrlGiven: boolean
  /** Whether this process is the only one of the API that there can be. */
  isAlone: boolean
}

/**
 * The issuer of the store's access tokens, which the first process of the API has set. One that has no BASE_URL takes what is there, and one
 * that is alone replaces it by its own. Throws IssuerDiffers.
 */
export async function claimIssuer(db: Queryable, settings: IssuerSettings, logger: Logger): Promise<string> {
  const { baseUrl, isBaseUrlGiven, isAlone } = settings
  await db.query(sql`insert into token_issuers (issuer) values (${baseUrl}) on conflict do nothing`)
  const issuer = (await findIssuer(db)) ?? baseUrl
  if (issuer === baseUrl || !isBaseUrlGiven) return issuer
  if (!isAlone) {
    throw new IssuerDiffers(
      `BASE_URL is ${baseUrl}, but the access tokens of this store are issued for ${issuer}: set BASE_URL to that in every process of the API, or run storefront issuer change with the new BASE_URL and restart them all with it`,
    )
  }
  await changeIssuer(db, baseUrl)
  logger.warn(
    { before: issuer, now: baseUrl },
    'BASE_URL is another one now: access tokens from before are refused, and clients refresh them',
  )
  return baseUrl
}

/** Null before the first start of the API. */
export async function findIssuer(db: Queryable): Promise<string | null> {
  const { rows } = await db.query<{ issuer: string }>('select issuer from token_issuers')
  return rows[0]?.issuer ?? null
}

/** From now on processes of the API start with this BASE_URL only. */
export async function changeIssuer(db: Queryable, issuer: string): Promise<void> {
  await db.query(sql`insert into token_issuers (issuer) values (${issuer})
    on conflict (is_current) do update set issuer = excluded.issuer, changed_at = now()`)
}

export interface IssuerWatchOptions {
  pool: Queryable
  issuer: string
  logger: Logger
}

/** Logs it when the issuer was changed since this process started: it and those that started later refuse each other's tokens. */
export class IssuerWatch {
  readonly #options: IssuerWatchOptions
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<void> | null = null
  #known: string

  constructor(options: IssuerWatchOptions) {
    this.#options = options
    this.#known = options.issuer
  }

  start(): Promise<void> {
    this.#timer ??= setInterval(() => {
      this.#looking ??= this.#look().finally(() => {
        this.#looking = null
      })
    }, POLL_MS)
    return Promise.resolve()
  }

  /** Idempotent, safe before start. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#looking
  }

  async #look(): Promise<void> {
    const { pool, issuer, logger } = this.#options
    // A database that is away is others' to report.
    const current = await findIssuer(pool).catch(() => null)
    if (current === null || current === this.#known) return
    this.#known = current
    if (current !== issuer) {
      logger.error(
        { issuer, current },
        'the issuer of access tokens was changed: restart this process with the new BASE_URL, for it refuses new tokens',
      )
    }
  }
}
