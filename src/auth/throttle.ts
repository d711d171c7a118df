import { createHmac, hkdfSync } from 'node:crypto'
import { RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible'
import type { Pool } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { networkOf, siteOf } from '../http/client-address.ts'
import type { Client } from './client.ts'

/** A key may use `points` in `seconds`. */
interface Limit {
  name: string
  points: number
  seconds: number
}

/** A limit for one client address, an IPv6 client's /64, and a higher one for all addresses of an IPv6 client's /48. */
interface AddressLimit {
  address: Limit
  site: Limit
}

// A /48 is one customer of a data centre, or some hundred homes of a provider.
const SITE_FACTOR = 4

// Wrong passwords for one account from one address: five are free, then each waits, 1 s, 2 s, 4 s … 15 min.
const WRONG_PASSWORDS: Limit = { name: 'login', points: 5, seconds: 3_600 }
const MAX_DELAY_SECONDS = 900
const TURN: Limit = { name: 'login-turn', points: 1, seconds: MAX_DELAY_SECONDS }
// Wrong passwords from one address for any accounts: a whole office mistypes less.
const WRONG_PASSWORDS_OF_ADDRESS = byAddress('login', 100, 300)
// Each costs a hash, of which a core makes 20 to 50 a second: an address takes 2 to 5 percent of one core. See docs/decisions/0102.
const REGISTRATIONS = byAddress('register', 60, 60)
// For a taken address or with a mail: nobody can test, or flood, a list of addresses quickly.
const COSTLY_REGISTRATION = 3
const RESETS: Limit = { name: 'password-reset', points: 5, seconds: 1_800 }
const RESETS_OF_ADDRESS = byAddress('password-reset', 60, 1_800)
// Past the limit no mail is sent, and nothing is refused: flooding a mailbox cannot lock its owner out, who has ten valid tokens meanwhile.
const MAILS: Limit = { name: 'account-mail', points: 10, seconds: 1_800 }

/**
 * Slows down guessing and flooding by counters that all processes share. It counts by client address: a stranger can make an account's
 * owner wait only where both have the same address. Throws `rate_limited`.
 */
export class Throttle {
  readonly #isEnabled: boolean
  readonly #key: Buffer
  readonly #limiters: Map<string, RateLimiterPostgres>

  /** `secret` keys the hashes under which clients and accounts are counted. */
  constructor({ pool, secret, isEnabled }: { pool: Pool; secret: string; isEnabled: boolean }) {
    this.#isEnabled = isEnabled
    this.#key = Buffer.from(hkdfSync('sha256', secret, '', 'storefront rate limits', 32))
    const ofAddresses = [WRONG_PASSWORDS_OF_ADDRESS, REGISTRATIONS, RESETS_OF_ADDRESS].flatMap(({ address, site }) => [address, site])
    const all = [WRONG_PASSWORDS, TURN, RESETS, MAILS, ...ofAddresses]
    this.#limiters = new Map(all.map((limit) => [limit.name, createLimiter(pool, limit)]))
  }

  /**
   * Runs a check of `account`'s password, which returns null when it is wrong. Counted before the check, and reverted unless the password
   * was wrong, so parallel attempts cannot slip under the limit.
   */
  async guardPassword<T>(client: Client, account: string, check: () => Promise<T | null>): Promise<T | null> {
    if (!this.#isEnabled) return check()
    const pair = this.#hash(networkOf(client.address), account)
    await this.#countAddress(WRONG_PASSWORDS_OF_ADDRESS, client)
    let isWrong = false
    try {
      const isDelayed = await this.#takeTurn(pair, client)
      const result = await check().catch(async (error) => {
        await this.#limiter(WRONG_PASSWORDS).reward(pair)
        throw error
      })
      isWrong = result === null
      if (!isWrong) await this.#limiter(WRONG_PASSWORDS).delete(pair)
      if (!isWrong && isDelayed) await this.#limiter(TURN).delete(pair)
      return result
    } finally {
      if (!isWrong) await this.#revert(this.#countersOf(WRONG_PASSWORDS_OF_ADDRESS, client), 1)
    }
  }

  /** Counts a registration. `isCostly`: it sends a mail. */
  async countRegistration(client: Client, isCostly: boolean): Promise<void> {
    if (this.#isEnabled) await this.#countAddress(REGISTRATIONS, client, isCostly ? COSTLY_REGISTRATION : 1)
  }

  /** Counts a registration that was refused because the address is taken. */
  async countTakenAddress(client: Client): Promise<void> {
    if (!this.#isEnabled) return
    for (const [limit, key] of this.#countersOf(REGISTRATIONS, client)) await this.#limiter(limit).penalty(key, COSTLY_REGISTRATION - 1)
  }

  async countPasswordReset(client: Client, account: string): Promise<void> {
    if (!this.#isEnabled) return
    await this.#countAddress(RESETS_OF_ADDRESS, client)
    await this.#consume(RESETS, this.#hash(networkOf(client.address), account), client)
  }

  /** Counts a mail to `account` that a stranger can cause. Returns false past the limit. */
  async countMail(account: string): Promise<boolean> {
    if (!this.#isEnabled) return true
    const { consumedPoints } = await this.#limiter(MAILS).penalty(this.#hash(account))
    return consumedPoints <= MAILS.points
  }

  /** Lets the free attempts through, and then one after each delay. Returns whether this attempt is past the free ones. */
  async #takeTurn(pair: string, client: Client): Promise<boolean> {
    const { consumedPoints } = await this.#limiter(WRONG_PASSWORDS).penalty(pair)
    const over = consumedPoints - WRONG_PASSWORDS.points
    if (over <= 0) return false
    try {
      await this.#limiter(TURN).consume(pair, 1, { customDuration: Math.min(2 ** (over - 1), MAX_DELAY_SECONDS) })
      return true
    } catch (error) {
      // An attempt that was not let through reveals nothing about the password, so the delay does not grow.
      if (error instanceof RateLimiterRes) await this.#limiter(WRONG_PASSWORDS).reward(pair)
      throw toRefusal(error, WRONG_PASSWORDS, client)
    }
  }

  /** Throws `rate_limited`, and reverts its own count then. */
  async #countAddress(limits: AddressLimit, client: Client, points = 1): Promise<void> {
    const counted: [Limit, string][] = []
    for (const [limit, key] of this.#countersOf(limits, client)) {
      counted.push([limit, key])
      try {
        await this.#consume(limit, key, client, points)
      } catch (error) {
        if (error instanceof AppError) await this.#revert(counted, points)
        throw error
      }
    }
  }

  async #revert(counted: readonly [Limit, string][], points: number): Promise<void> {
    for (const [limit, key] of counted) await this.#limiter(limit).reward(key, points)
  }

  #countersOf({ address, site }: AddressLimit, client: Client): [Limit, string][] {
    const wide = siteOf(client.address)
    const counters: [Limit, string][] = [[address, this.#hash(networkOf(client.address))]]
    if (wide !== null) counters.push([site, this.#hash(wide)])
    return counters
  }

  async #consume(limit: Limit, key: string, client: Client, points = 1): Promise<void> {
    try {
      await this.#limiter(limit).consume(key, points)
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

function byAddress(name: string, points: number, seconds: number): AddressLimit {
  return {
    address: { name: `${name}-address`, points, seconds },
    site: { name: `${name}-site`, points: points * SITE_FACTOR, seconds },
  }
}

function createLimiter(pool: Pool, { name, points, seconds }: Limit): RateLimiterPostgres {
  return new RateLimiterPostgres({
    storeClient: pool,
    storeType: 'pool',
    tableName: 'rate_limits',
    // A migration creates the table, and housekeeping deletes expired rows.
    tableCreated: true,
    clearExpiredByTimeout: false,
    keyPrefix: name,
    points,
    duration: seconds,
  })
}

/** Header fields after draft-ietf-httpapi-ratelimit-headers. Returns any other error, such as an outage, unchanged. */
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
