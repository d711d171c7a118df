import { createHmac } from 'node:crypto'
import { RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible'
import type { Pool } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { networkOf, siteOf } from '../http/client-address.ts'
import type { Client } from './client.ts'
import { deriveKey } from './encryption.ts'
import {
  type AddressLimit,
  CODE_TURN,
  COMMITS,
  COSTLY_REGISTRATION,
  EMAIL_CHANGES,
  EXPORTS,
  GUESTS,
  GUESTS_OF_MAILBOX,
  type Limit,
  MAILS,
  MAILS_BY_ONE,
  MAX_DELAY_SECONDS,
  ORDER_LINKS,
  PASSKEY_CHALLENGES,
  POSTAL_CODES,
  POSTAL_CODES_OF_DAY,
  REGISTRATIONS,
  RESETS,
  RESETS_OF_ADDRESS,
  SECOND_FACTOR_CHALLENGES,
  SIGN_INS,
  TURN,
  WORRYING_CODES,
  WRONG_CODES,
  WRONG_CODES_OF_ACCOUNT,
  WRONG_PASSWORDS,
  WRONG_PASSWORDS_OF_ADDRESS,
} from './limits.ts'

/** A limit and its key's hash. */
type Counter = [Limit, string]

export interface ThrottleOptions {
  pool: Pool
  /** The HMAC key for hashing counted clients and accounts. */
  secret: string
  isEnabled: boolean
  /** Whether each network has limits, counted over all its accounts. */
  isByNetwork: boolean
}

/** The limit of wrong attempts, and the delays after the free ones. */
interface Turns {
  wrong: Limit
  turn: Limit
}

/**
 * Slows down guessing and flooding by counters that all processes share. Counts by client address, so a stranger can
 * delay an account's owner only from the owner's address. Throws `rate_limited`.
 */
export class Throttle {
  readonly #isEnabled: boolean
  readonly #isByNetwork: boolean
  readonly #key: Buffer
  readonly #limiters: Map<string, RateLimiterPostgres>

  constructor({ pool, secret, isEnabled, isByNetwork }: ThrottleOptions) {
    this.#isEnabled = isEnabled
    this.#isByNetwork = isByNetwork
    this.#key = deriveKey(secret, 'rate limits')
    const ofAddresses = [WRONG_PASSWORDS_OF_ADDRESS, REGISTRATIONS, RESETS_OF_ADDRESS, PASSKEY_CHALLENGES, GUESTS, SIGN_INS].flatMap(
      ({ address, site }) => [address, site],
    )
    const ofCodes = [WRONG_CODES, CODE_TURN, WRONG_CODES_OF_ACCOUNT, WORRYING_CODES, SECOND_FACTOR_CHALLENGES]
    const all = [
      WRONG_PASSWORDS,
      TURN,
      ...ofCodes,
      RESETS,
      GUESTS_OF_MAILBOX,
      EXPORTS,
      EMAIL_CHANGES,
      MAILS,
      MAILS_BY_ONE,
      COMMITS,
      ORDER_LINKS,
      POSTAL_CODES,
      POSTAL_CODES_OF_DAY,
      ...ofAddresses,
    ]
    this.#limiters = new Map(all.map((limit) => [limit.name, createLimiter(pool, limit)]))
  }

  /**
   * Runs a check of `account`'s password, which returns null for a wrong one. Counts before the check and reverts the
   * count unless the password was wrong, so parallel attempts cannot exceed the limit.
   */
  async guardPassword<T>(client: Client, account: string, check: () => Promise<T | null>): Promise<T | null> {
    const key = this.#hash(networkOf(client.address), account)
    return this.guardProof(client, () => this.#guardWithBackoff({ wrong: WRONG_PASSWORDS, turn: TURN }, key, client, check))
  }

  /**
   * Like `guardPassword`, for an authenticator app's code from a client with the account's password or session.
   * Sign-ins and step-ups have separate counts, so a stranger with the password cannot block the owner's sessions.
   */
  async guardCode<T>(
    client: Client,
    { userId, sessionId }: { userId: string; sessionId: string | null },
    check: () => Promise<T | null>,
  ): Promise<T | null> {
    const key = this.#hash(userId, sessionId ?? networkOf(client.address))
    const ofAccount: Counter = [WRONG_CODES_OF_ACCOUNT, this.#hash(userId, sessionId === null ? 'sign-in' : 'step-up')]
    const checkBelowCeiling = () => this.#guardCounters([ofAccount], client, check)
    return this.guardProof(client, () => this.#guardWithBackoff({ wrong: WRONG_CODES, turn: CODE_TURN }, key, client, checkBelowCeiling))
  }

  /**
   * Like `guardPassword`, for an unguessable proof. Counts by network address only, so a stranger cannot delay the
   * owner.
   */
  async guardProof<T>(client: Client, check: () => Promise<T | null>): Promise<T | null> {
    return this.#guardCounters(this.#countersOf(WRONG_PASSWORDS_OF_ADDRESS, client), client, check)
  }

  /**
   * Like `guardPassword`, for an order address's postal code. Postal codes are few, so daily and total attempts are few
   * too.
   */
  async guardPostalCode<T>(client: Client, holder: string, check: () => Promise<T | null>): Promise<T | null> {
    const key = this.#hash('postal code', holder)
    const counters: Counter[] = [POSTAL_CODES_OF_DAY, POSTAL_CODES].map((limit) => [limit, key])
    return this.#guardCounters(counters, client, check)
  }

  /** Counts an order link's use by its holder and network, since links may be shared. */
  async countOrderLink(client: Client, holder: string): Promise<void> {
    if (this.#isEnabled) await this.#consume(ORDER_LINKS, this.#hash('order link', holder, networkOf(client.address)), client)
  }

  /** Whether a preview's hash is used for the first time in any process. Counts even if limits are off. */
  isFirstCommit(hash: string): Promise<boolean> {
    return this.#countBelow(COMMITS, this.#hash('commit', hash))
  }

  /** Counts, runs the check, and reverts the count unless the check returns null for a wrong proof. */
  async #guardCounters<T>(counters: readonly Counter[], client: Client, check: () => Promise<T | null>): Promise<T | null> {
    if (!this.#isEnabled) return check()
    await this.#countAll(counters, client)
    let isWrong = false
    try {
      const result = await check()
      isWrong = result === null
      return result
    } finally {
      if (!isWrong) await this.#revert(counters, 1)
    }
  }

  async #guardWithBackoff<T>(limits: Turns, key: string, client: Client, check: () => Promise<T | null>): Promise<T | null> {
    if (!this.#isEnabled) return check()
    const isDelayed = await this.#backOff(limits, key, client)
    const result = await check().catch(async (error) => {
      await this.#limiter(limits.wrong).reward(key)
      throw error
    })
    if (result !== null) await this.#limiter(limits.wrong).delete(key)
    if (result !== null && isDelayed) await this.#limiter(limits.turn).delete(key)
    return result
  }

  async countSecondFactorChallenge(client: Client, userId: string): Promise<void> {
    if (this.#isEnabled) await this.#consume(SECOND_FACTOR_CHALLENGES, this.#hash(userId, networkOf(client.address)), client)
  }

  /** Counts a wrong code at a sign-in. Returns true once a day, when the owner must be warned. */
  async countWrongCode(userId: string): Promise<boolean> {
    if (!this.#isEnabled) return false
    const { consumedPoints } = await this.#limiter(WORRYING_CODES).penalty(this.#hash(userId))
    return consumedPoints === WORRYING_CODES.points
  }

  /** Counts a registration. `isCostly` means that it sends a mail. */
  async countRegistration(client: Client, isCostly: boolean): Promise<void> {
    if (this.#isEnabled) await this.#countAddress(REGISTRATIONS, client, isCostly ? COSTLY_REGISTRATION : 1)
  }

  /** Counts a registration that was refused because the address is taken. */
  async countTakenAddress(client: Client): Promise<void> {
    if (!this.#isEnabled) return
    for (const [limit, key] of this.#countersOf(REGISTRATIONS, client)) await this.#limiter(limit).penalty(key, COSTLY_REGISTRATION - 1)
  }

  async countGuest(client: Client, email: string): Promise<void> {
    if (!this.#isEnabled) return
    await this.#countAddress(GUESTS, client)
    if (this.#isByNetwork) await this.#consume(GUESTS_OF_MAILBOX, this.#hash(siteOf(client.address), email), client)
  }

  async countPasskeyChallenge(client: Client): Promise<void> {
    if (this.#isEnabled) await this.#countAddress(PASSKEY_CHALLENGES, client)
  }

  async countExport(client: Client, userId: string): Promise<void> {
    if (this.#isEnabled) await this.#consume(EXPORTS, this.#hash(userId), client)
  }

  async countEmailChange(client: Client, userId: string): Promise<void> {
    if (this.#isEnabled) await this.#consume(EMAIL_CHANGES, this.#hash(userId), client)
  }

  async countPasswordReset(client: Client, account: string): Promise<void> {
    if (!this.#isEnabled) return
    await this.#countAddress(RESETS_OF_ADDRESS, client)
    await this.#consume(RESETS, this.#hash(networkOf(client.address), account), client)
  }

  /** Counts the start or end of a sign-in with a provider. */
  async countSignIn(client: Client): Promise<void> {
    if (this.#isEnabled) await this.#countAddress(SIGN_INS, client)
  }

  /** Counts a registration's mail like `countMail`, and by the client's network. */
  countRegistrationMail(client: Client, email: string): Promise<boolean> {
    if (!this.#isByNetwork) return this.countMail(email, 'registration')
    return this.#countMailBy(siteOf(client.address), email, 'registration')
  }

  /** Counts a mail that an account requests to a new address like `countMail`, and by the account. */
  countNewAddressMail(userId: string, email: string): Promise<boolean> {
    return this.#countMailBy(userId, email, 'new address')
  }

  /** Counts a mail to `email` that a stranger can cause, separately for each kind. Returns false past the limit. */
  async countMail(email: string, kind: 'registration' | 'password reset' | 'new address' | 'own address'): Promise<boolean> {
    if (!this.#isEnabled) return true
    return this.#countBelow(MAILS, this.#hash(email, kind))
  }

  /** A requester past its own limit does not count for the address. */
  async #countMailBy(who: string, email: string, kind: 'registration' | 'new address'): Promise<boolean> {
    if (!this.#isEnabled) return true
    return (await this.#countBelow(MAILS_BY_ONE, this.#hash(email, kind, who))) && (await this.countMail(email, kind))
  }

  async #countBelow(limit: Limit, key: string): Promise<boolean> {
    const { consumedPoints } = await this.#limiter(limit).penalty(key)
    return consumedPoints <= limit.points
  }

  /** Allows the free attempts, then one after each delay. Returns whether this attempt is past the free ones. */
  async #backOff({ wrong, turn }: Turns, key: string, client: Client): Promise<boolean> {
    const { consumedPoints } = await this.#limiter(wrong).penalty(key)
    const over = consumedPoints - wrong.points
    if (over <= 0) return false
    try {
      await this.#limiter(turn).consume(key, 1, { customDuration: Math.min(2 ** (over - 1), MAX_DELAY_SECONDS) })
      return true
    } catch (error) {
      // A refused attempt reveals nothing about the password, so the delay does not grow.
      if (error instanceof RateLimiterRes) await this.#limiter(wrong).reward(key)
      throw toRefusal(error, wrong, client)
    }
  }

  async #countAddress(limits: AddressLimit, client: Client, points = 1): Promise<void> {
    await this.#countAll(this.#countersOf(limits, client), client, points)
  }

  /** Throws `rate_limited` and then reverts its own count. */
  async #countAll(counters: readonly Counter[], client: Client, points = 1): Promise<void> {
    const counted: Counter[] = []
    for (const [limit, key] of counters) {
      counted.push([limit, key])
      try {
        await this.#consume(limit, key, client, points)
      } catch (error) {
        if (error instanceof AppError) await this.#revert(counted, points)
        throw error
      }
    }
  }

  async #revert(counted: readonly Counter[], points: number): Promise<void> {
    for (const [limit, key] of counted) await this.#limiter(limit).reward(key, points)
  }

  #countersOf({ address, site }: AddressLimit, client: Client): Counter[] {
    if (!this.#isByNetwork) return []
    const [narrow, wide] = [networkOf(client.address), siteOf(client.address)]
    const counters: Counter[] = [[address, this.#hash(narrow)]]
    if (wide !== narrow) counters.push([site, this.#hash(wide)])
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

  /** A name that hides a network or an account. */
  nameOf(who: string): string {
    return this.#hash('name', who)
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
    // A migration creates the table, and housekeeping deletes expired rows.
    tableCreated: true,
    clearExpiredByTimeout: false,
    keyPrefix: name,
    points,
    duration: seconds,
  })
}

/** Header fields by draft-ietf-httpapi-ratelimit-headers. Returns any other error, such as an outage, unchanged. */
function toRefusal(error: unknown, limit: Limit, client: Client): unknown {
  if (!(error instanceof RateLimiterRes)) return error
  client.record('throttled', { limit: limit.name })
  const seconds = Math.max(1, Math.ceil(error.msBeforeNext / 1000))
  return new AppError('rate_limited', `Too many attempts. Try again in ${seconds} seconds.`, {
    headers: {
      'retry-after': String(seconds),
      ratelimit: `"${limit.name}";r=0;t=${seconds}`,
      'ratelimit-policy': `"${limit.name}";q=${limit.points};w=${limit.seconds}`,
    },
  })
}
