import type { Logger } from 'pino'
import type { Gauge } from 'prom-client'
import { withinMs } from '../within-ms.ts'

/** The value null removes the previous value. */
export interface Reading {
  gauge: Gauge
  labels?: Record<string, string>
  value: number | null
}

interface Source {
  name: string
  read: () => Promise<readonly Reading[]>
  last: readonly Reading[]
  inFlight: Promise<boolean> | null
  isFailing: boolean
}

const TIMEOUT_MS = 2_000

/** Reads the sources of metrics. A failed or hanging source loses only its own values. */
export class Readings {
  readonly #sources: Source[] = []
  readonly #ok: Gauge
  readonly #logger: Logger

  constructor(ok: Gauge, logger: Logger) {
    this.#ok = ok
    this.#logger = logger
  }

  add(name: string, read: Source['read']): void {
    this.#sources.push({ name, read, last: [], inFlight: null, isFailing: false })
  }

  async refresh(): Promise<void> {
    await Promise.all(this.#sources.map((source) => this.#refresh(source)))
  }

  async #refresh(source: Source): Promise<void> {
    // A hanging source is not called a second time meanwhile.
    source.inFlight ??= this.#read(source).finally(() => {
      source.inFlight = null
    })
    const isRead = await withinMs(TIMEOUT_MS, source.inFlight, false)
    if (!isRead) forget(source.last)
    this.#ok.set({ source: source.name }, isRead ? 1 : 0)
  }

  async #read(source: Source): Promise<boolean> {
    try {
      const readings = await source.read()
      forget(source.last)
      source.last = readings
      for (const { gauge, labels = {}, value } of readings) if (value !== null) gauge.set(labels, value)
      source.isFailing = false
      return true
    } catch (error) {
      if (!source.isFailing) this.#logger.warn({ err: error, source: source.name }, 'a source of metrics fails')
      source.isFailing = true
      return false
    }
  }
}

function forget(readings: readonly Reading[]): void {
  for (const { gauge, labels = {} } of readings) gauge.remove(labels)
}
