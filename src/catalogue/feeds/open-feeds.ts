import { AppError } from '../../errors.ts'
import { overloaded } from '../../http/load-shedder.ts'

export interface FeedLimits {
  /** The most feeds in progress. */
  maxOpen: number
  /** The most feeds in progress for one client network. */
  maxOfNetwork: number
  /** A client is cut off if one part takes longer. */
  patienceMs: number
}

/** How long a client must have waited before another feed may take its place. */
const SLOW_MS = 1_000
const RETRY_AFTER_SECONDS = 30

interface OpenFeed {
  network: string
  cutOff: () => void
  /**
   * Since when the sent part waits for the client, in milliseconds of performance.now(). Null while the store prepares
   * a part.
   */
  waitingSince: number | null
}

/** Bounds the feeds in progress, so clients that read slowly or not at all cost little memory. */
export class OpenFeeds {
  readonly #limits: FeedLimits
  readonly #open = new Set<OpenFeed>()

  constructor(limits: FeedLimits) {
    this.#limits = limits
  }

  get size(): number {
    return this.#open.size
  }

  /**
   * Takes a place, if necessary from the slowest client, whose `cutOff` is called. Free the place with `close`. Throws
   * `rate_limited` if the client's `network` has its number of feeds, and `overloaded` if active clients have all
   * places.
   */
  open(network: string, cutOff: () => void): OpenFeed {
    const ofNetwork = this.#open.values().filter((feed) => feed.network === network)
    if (ofNetwork.toArray().length >= this.#limits.maxOfNetwork) {
      throw new AppError('rate_limited', `At most ${this.#limits.maxOfNetwork} feeds are sent to one client at once.`, {
        headers: { 'retry-after': String(RETRY_AFTER_SECONDS) },
      })
    }
    if (this.#open.size >= this.#limits.maxOpen) {
      const slowest = this.#findSlowest()
      if (slowest === null) throw overloaded('search', 'Too many feeds are sent at this moment.')
      this.close(slowest)
      slowest.cutOff()
    }
    const feed: OpenFeed = { network, cutOff, waitingSince: null }
    this.#open.add(feed)
    return feed
  }

  /** Idempotent. */
  close(feed: OpenFeed): void {
    this.#open.delete(feed)
  }

  /** A feed's parts, each after the client has taken the previous one. */
  async *pace<T>(feed: OpenFeed, parts: AsyncIterable<T>): AsyncGenerator<T> {
    for await (const part of parts) {
      feed.waitingSince = performance.now()
      const impatience = setTimeout(feed.cutOff, this.#limits.patienceMs)
      try {
        yield part
      } finally {
        clearTimeout(impatience)
        feed.waitingSince = null
      }
    }
  }

  #findSlowest(): OpenFeed | null {
    let slowest: { feed: OpenFeed; since: number } | null = null
    for (const feed of this.#open) {
      const since = feed.waitingSince
      if (since !== null && (slowest === null || since < slowest.since)) slowest = { feed, since }
    }
    return slowest !== null && performance.now() - slowest.since >= SLOW_MS ? slowest.feed : null
  }
}
