import type { Pool } from '../db/pool.ts'
import type { Range } from './figure-schemas.ts'
import { readCollectedAt, readFigures } from './read-figures.ts'

/** A page that polls gets the same bytes for this long, unless figures were collected meanwhile. */
const FRESH_MS = 30_000

interface Entry {
  body: Promise<string>
  collectedAt: number | null
  readAt: number
}

export interface FiguresOptions {
  pool: Pool
  now: () => Date
  /** The shop's. */
  timeZone: string
}

/** The figures of each range as JSON, read at most once per collection and half minute, however many ask at once. */
export class FiguresCache {
  readonly #pool: Pool
  readonly #now: () => Date
  readonly #timeZone: string
  readonly #entries = new Map<Range, Entry>()

  constructor({ pool, now, timeZone }: FiguresOptions) {
    this.#pool = pool
    this.#now = now
    this.#timeZone = timeZone
  }

  async get(range: Range): Promise<string> {
    const collectedAt = await readCollectedAt(this.#pool)
    const known = this.#entries.get(range)
    const isFresh =
      known !== undefined && known.collectedAt === (collectedAt?.getTime() ?? null) && performance.now() - known.readAt < FRESH_MS
    if (isFresh) return known.body
    const options = { range, collectedAt, now: this.#now(), timeZone: this.#timeZone }
    const body = readFigures(this.#pool, options).then((figures) => JSON.stringify(figures))
    const entry = { body, collectedAt: collectedAt?.getTime() ?? null, readAt: performance.now() }
    this.#entries.set(range, entry)
    // The next call reads again.
    body.catch(() => {
      if (this.#entries.get(range) === entry) this.#entries.delete(range)
    })
    return body
  }
}
