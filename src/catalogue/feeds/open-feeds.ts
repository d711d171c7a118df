import { AppError } from '../../errors.ts'
import { overloaded } from '../../http/load-shedder.ts'

export interface FeedLimits {
  /** Feeds that are sent at once. */
  maxOpen: number
  /** Feeds of one client's network that are sent at once. */
  maxOfNetwork: number
  /** A client that takes longer than this for one part of a feed is cut off. */
  patienceMs: number
}

/** The least time that a client has waited when its feed gives its place to another one. */
const SLOW_MS = 1_000
const RETRY_AFTER_SECONDS = 30

interface OpenFeed {
  network: string
  cutOff: () => void
  /**
   * The time, by performance.now(), since when the client has not taken what was sent; null while the store works for
   * it.
   */
  waitingSince: number | null
}

/** Bounds the feeds that are sent at once, so that clients that read slowly, or not at all, cost little memory. */
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
   * Takes a place, if need be from the slowest client, whose `cutOff` is called. Close the feed with `close`. Throws
   * `rate_limited` when the client's `network` has its number of feeds, and `overloaded` when reading clients have all
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

  /** The parts of a feed, one after the other as the client takes them. */
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
