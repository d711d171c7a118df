import { AppError } from '../../errors.ts'

/** `points` of one client in `seconds`. */
interface Limit {
  name: string
  points: number
  seconds: number
}

/** A hundred requests a second for any time. A key that loops without a pause is slowed down. */
export const REQUESTS_OF_KEY: Limit = { name: 'api-key', points: 1_000, seconds: 10 }
/** Machines do not mistype: past that, one is configured wrongly, or somebody guesses. */
export const REFUSED_KEYS: Limit = { name: 'api-key-refused', points: 60, seconds: 60 }
const MAX_CLIENTS = 10_000

/** Counts in windows of a fixed length in the memory of this process: a check costs no query. Past the bound of clients, more are not counted. */
export class KeyLimits {
  readonly #limit: Limit
  readonly #counts = new Map<string, number>()
  #startedAt = Number.NEGATIVE_INFINITY

  constructor(limit: Limit) {
    this.#limit = limit
  }

  /** The number in this window, this one included. */
  count(client: string): number {
    if (performance.now() - this.#startedAt >= this.#limit.seconds * 1000) {
      this.#startedAt = performance.now()
      this.#counts.clear()
    }
    const count = (this.#counts.get(client) ?? 0) + 1
    if (count > 1 || this.#counts.size < MAX_CLIENTS) this.#counts.set(client, count)
    return count
  }

  /** `rate_limited`, with header fields after draft-ietf-httpapi-ratelimit-headers. */
  refusal(): AppError {
    const { name, points, seconds } = this.#limit
    const waitSeconds = Math.max(1, Math.ceil(seconds - (performance.now() - this.#startedAt) / 1000))
    return new AppError('rate_limited', `Too many requests. Try again in ${waitSeconds} seconds.`, {
      headers: {
        'retry-after': String(waitSeconds),
        ratelimit: `"${name}";r=0;t=${waitSeconds}`,
        'ratelimit-policy': `"${name}";q=${points};w=${seconds}`,
      },
    })
  }
}
