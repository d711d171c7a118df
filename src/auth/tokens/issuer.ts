import type { Logger } from 'pino'
import type { FreshCopies } from '../../db/fresh-copies.ts'
import type { Queryable } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { OperatorError } from '../../errors.ts'

const MAX_AGE_MS = 4_000

/** Another API process has another BASE_URL, so the two would refuse each other's tokens. */
class IssuerDiffers extends OperatorError {
  override readonly name = 'IssuerDiffers'
}

export interface IssuerSettings {
  baseUrl: string
  /** Whether BASE_URL is set; otherwise `baseUrl` is derived from the port. */
  isBaseUrlGiven: boolean
  /** Whether no other API process can exist. */
  isAlone: boolean
}

/**
 * The issuer of the store's access tokens, which the first API process sets. A process without BASE_URL uses the stored
 * issuer; the only API process replaces it. Throws IssuerDiffers.
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
  logger.warn({ before: issuer, now: baseUrl }, 'BASE_URL has changed: earlier access tokens are refused, and clients refresh them')
  return baseUrl
}

/** Returns null before the API's first start. */
export async function findIssuer(db: Queryable): Promise<string | null> {
  const { rows } = await db.query<{ issuer: string }>('select issuer from token_issuers')
  return rows[0]?.issuer ?? null
}

/** Sets the issuer. API processes then start only with this BASE_URL. */
export async function changeIssuer(db: Queryable, issuer: string): Promise<void> {
  await db.query(sql`insert into token_issuers (issuer) values (${issuer})
    on conflict (is_current) do update set issuer = excluded.issuer, changed_at = now()`)
}

/**
 * Logs an error if the issuer changes after this process started, because processes with different issuers refuse each
 * other's tokens.
 */
export function watchIssuer({ copies, issuer, logger }: { copies: FreshCopies; issuer: string; logger: Logger }): void {
  let known = issuer
  copies.add<{ issuer: string | null }>({
    name: 'issuer',
    columns: ['issuer'],
    read: () => sql`select (select issuer from token_issuers) as issuer`,
    maxAgeMs: MAX_AGE_MS,
    learn({ issuer: current }) {
      if (current === null || current === known) return
      known = current
      if (current === issuer) return
      logger.error(
        { issuer, current },
        'the issuer of access tokens was changed: this process refuses new tokens; restart it with the new BASE_URL',
      )
    },
  })
}
