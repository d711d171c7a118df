import { createHmac, hkdfSync } from 'node:crypto'
import { RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible'
import type { Pool } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { networkOf } from '../http/client-address.ts'
import type { Client } from './client.ts'

/** How many `points` a key may use up in `seconds`. */
interface Limit {
  name: string
  points: number
  seconds: number
}

// Wrong passwords for one account from one address: five are free, then each must wait, 1 s, 2 s, 4 s … 15 min.
const WRONG_PASSWORDS: Limit = { name: 'login', points: 5, seconds: 3_600 }
const MAX_DELAY_SECONDS = 900
const TURN: Limit = { name: 'login-turn', points: 1, seconds: MAX_DELAY_SECONDS }
// Wrong passwords from one address for whatever accounts: a whole office mistypes less.
const WRONG_PASSWORDS_OF_ADDRESS: Limit = { name: 'login-address', points: 100, seconds: 300 }
// Each costs a hash. A taken address counts for ten, so that a list of addresses cannot be tried out quickly.
const REGISTRATIONS: Limit = { name: 'register-address', points: 600, seconds: 60 }
const COSTLY_REGISTRATION = 10
const RESETS: Limit = { name: 'password-reset', points: 5, seconds: 1_800 }
const RESETS_OF_ADDRESS: Limit = { name: 'password-reset-address', points: 60, seconds: 1_800 }
// Never refused, only not mailed: whoever floods a mailbox cannot keep its owner out, who has ten good tokens for as long.
const MAILS: Limit = { name: 'account-mail', points: 10, seconds: 1_800 }

export interface ThrottleOptions {
  pool: Pool
  /** Keys the hashes under which clients and accounts are counted. */
  secret: string
  isEnabled: boolean
}

/**
 * Slows down guessing and flooding, by counters that all processes share. It looks at who asks, so a stranger can make an
 * owner wait only at an address they share. Throws `rate_limited`.
 */
export class Throttle {
  readonly #isEnabled: boolean
  readonly #key: Buffer
  readonly #limiters: Map<string, RateLimiterPostgres>

  constructor({ pool, secret, isEnabled }: ThrottleOptions) {
    this.#isEnabled = isEnabled
    this.#key = Buffer.from(hkdfSync('sha256', secret, '', 'storefront rate limits', 32))
    const all = [WRONG_PASSWORDS, TURN, WRONG_PASSWORDS_OF_ADDRESS, REGISTRATIONS, RESETS, RESETS_OF_ADDRESS, MAILS]
    this.#limiters = new Map(all.map((limit) => [limit.name, createLimiter(pool, limit)]))
  }

  /** Runs a check of `account`'s password, which gives null when it is wrong. It counts while it runs: hundreds at once are hundreds. */
  async guardPassword<T>(client: Client, account: string, check: () => Promise<T | null>): Promise<T | null> {
    if (!this.#isEnabled) return check()
    const from = this.#hash(networkOf(client.address))
    const pair = this.#hash(networkOf(client.address), account)
    await this.#refuseOver(WRONG_PASSWORDS_OF_ADDRESS, from, client)
    const isDelayed = await this.#takeTurn(pair, client)
    let result: T | null
    try {
      result = await check()
    } catch (error) {
      await this.#limiter(WRONG_PASSWORDS).reward(pair)
      throw error
    }
    if (result === null) {
      await this.#limiter(WRONG_PASSWORDS_OF_ADDRESS).penalty(from)
    } else {
      await this.#limiter(WRONG_PASSWORDS).delete(pair)
      if (isDelayed) await this.#limiter(TURN).delete(pair)
    }
    return result
  }

  /** Counts a registration. `isCostly` when each one sends a mail. */
  async countRegistration(client: Client, isCostly: boolean): Promise<void> {
    await this.#consume(REGISTRATIONS, client, [networkOf(client.address)], isCostly ? COSTLY_REGISTRATION : 1)
  }

  /** Counts that a registration was refused because the address is taken. */
  async countTakenAddress(client: Client): Promise<void> {
    if (this.#isEnabled) await this.#limiter(REGISTRATIONS).penalty(this.#hash(networkOf(client.address)), COSTLY_REGISTRATION - 1)
  }

  async countPasswordReset(client: Client, account: string): Promise<void> {
    await this.#consume(RESETS_OF_ADDRESS, client, [networkOf(client.address)])
    await this.#consume(RESETS, client, [networkOf(client.address), account])
  }

  /** Counts a mail to `account` that a stranger can cause. False when there were too many. */
  async allowsMail(account: string): Promise<boolean> {
    if (!this.#isEnabled) return true
    const { consumedPoints } = await this.#limiter(MAILS).penalty(this.#hash(account))
    return consumedPoints <= MAILS.points
  }

  /** Lets the free tries through, and of the others one each time the delay is over. Returns whether it is past the free ones. */
  async #takeTurn(pair: string, client: Client): Promise<boolean> {
    const { consumedPoints } = await this.#limiter(WRONG_PASSWORDS).penalty(pair)
    const over = consumedPoints - WRONG_PASSWORDS.points
    if (over <= 0) return false
    try {
      await this.#limiter(TURN).consume(pair, 1, { customDuration: Math.min(2 ** (over - 1), MAX_DELAY_SECONDS) })
      return true
    } catch (error) {
      // A try that was not let through tells nothing about a password, so it does not make the delay grow.
      if (error instanceof RateLimiterRes) await this.#limiter(WRONG_PASSWORDS).reward(pair)
      throw toRefusal(error, WRONG_PASSWORDS, client)
    }
  }

  async #refuseOver(limit: Limit, key: string, client: Client): Promise<void> {
    const used = await this.#limiter(limit).get(key)
    if (used !== null && used.consumedPoints >= limit.points) throw toRefusal(used, limit, client)
  }

  async #consume(limit: Limit, client: Client, who: string[], points = 1): Promise<void> {
    if (!this.#isEnabled) return
    try {
      await this.#limiter(limit).consume(this.#hash(...who), points)
    } catch (error) {
      throw toRefusal(error, limit, client)
    }
  }

  #limiter(limit: Limit): RateLimiterPostgres {
    const limiter = this.#limiters.get(limit.name)
    if (limiter === undefined) throw new Error(`there is no limit ${limit.name}`)
    return limiter
  }

  #hash(...who: string[]): string {
    return createHmac('sha256', this.#key).update(JSON.stringify(who)).digest('base64url')
  }
}

function createLimiter(pool: Pool, { name, points, seconds }: Limit): RateLimiterPostgres {
  return new RateLimiterPostgres({
    storeClient: pool,
    storeType: 'pool',
    tableName: 'rate_limits',
    // The table comes by a migration, and housekeeping empties it.
    tableCreated: true,
    clearExpiredByTimeout: false,
    keyPrefix: name,
    points,
    duration: seconds,
  })
}

/** Header fields after draft-ietf-httpapi-ratelimit-headers. Anything but a refusal, such as an outage, comes back as it is. */
function toRefusal(error: unknown, limit: Limit, client: Client): unknown {
  if (!(error instanceof RateLimiterRes)) return error
  client.record('throttled', { limit: limit.name })
  const seconds = Math.max(1, Math.ceil(error.msBeforeNext / 1000))
  return new AppError('rate_limited', `Too many tries. Try again in ${seconds} seconds.`, {
    headers: {
      'retry-after': String(seconds),
      ratelimit: `"${limit.name}";r=0;t=${seconds}`,
      'ratelimit-policy': `"${limit.name}";q=${limit.points};w=${limit.seconds}`,
    },
  })
}
