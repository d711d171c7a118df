import type { Logger } from 'pino'
import { reasonOf } from '../db/loggable-error.ts'
import { Loop } from '../loop.ts'
import { withinMs } from '../within-ms.ts'
import { type CompactOptions, compactLake } from './compact-lake.ts'
import { readSnapshot, settleMoved } from './iceberg/event-table.ts'
import { endLostSnapshots, expireSnapshots, type UnusedFiles } from './iceberg/expire-snapshots.ts'
import { DERIVED_TABLES, EVENT_TABLES, type LakeTableDefinition } from './iceberg/lake-table.ts'
import { TableStore } from './iceberg/table-store.ts'
import { writeDerivedTables } from './iceberg/write-derived-tables.ts'
import { LakeBusy, withFreeLakeLock, withFreeTablesLock, withTablesLock } from './lake-lock.ts'
import type { DatasetName } from './lake-names.ts'
import type { LakeStore } from './lake-store.ts'

const HOUR_MS = 3_600_000
/** The default of Iceberg. */
export const KEEP_HOURS = 120

export interface MaintainOptions extends Omit<CompactOptions, 'isWanted'>, Partial<Pick<CompactOptions, 'isWanted'>> {
  keepHours?: number
  isWhole?: boolean
  url?: string
  unused?: UnusedFiles
}

export interface MaintainReport {
  merged: number
  written: number
  snapshots: number
  files: number
  failures: string[]
}

/** A step that fails does not stop the others. The caller holds the lock of the lake's files. */
export async function maintainLake({
  keepHours = KEEP_HOURS,
  isWhole = true,
  url,
  unused,
  ...options
}: MaintainOptions): Promise<MaintainReport> {
  const { store, signal, now = () => new Date() } = options
  const report: MaintainReport = { merged: 0, written: 0, snapshots: 0, files: 0, failures: [] }
  const attempt = async (what: string, work: () => Promise<void>) => {
    await work().catch((error) => report.failures.push(`${what}: ${reasonOf(error)}`))
    signal?.throwIfAborted()
  }
  const expire = async (tables: readonly LakeTableDefinition[]) => {
    for (const table of tables)
      await attempt(table.name, async () => {
        report.snapshots += await endLostSnapshots(store, table)
        await new TableStore(store, table.name).renewHint()
        const { snapshots, files } = await expireSnapshots(store, table, expiryOf(now(), keepHours), now(), unused)
        report.snapshots += snapshots
        report.files += files
      })
  }
  await attempt('merging', async () => {
    await settleMoved(store, now())
    const { merged, failures } = await compactLake({ isWanted: () => true, ...options })
    report.merged += merged
    report.failures.push(...failures)
  })
  // Expires first, because the tables may need the space.
  await expire(EVENT_TABLES)
  if (isWhole)
    await attempt('tables of the newest state', async () => {
      const write = () => writeDerivedTables(store, { checksFiles: true, signal, now })
      report.written += await (url === undefined ? write() : withTablesLock(url, write))
    })
  await expire(DERIVED_TABLES)
  return report
}

function expiryOf(now: Date, keepHours: number): Date {
  return new Date(now.getTime() - (keepHours === 0 ? -1 : keepHours) * HOUR_MS)
}

export interface LakeMaintenanceOptions {
  store: LakeStore
  url: string
  logger: Logger
  now?: () => Date
  onFresh?: () => void
}

const EVERY_MS = 60_000
/** Together with the sink's wait, a row is in these tables a minute after its event. */
const REFRESH_MS = 30_000
/** The share of a processor that refreshes may use. Longer refreshes wait longer, up to `REFRESH_MAX_MS`. */
const REFRESH_SHARE = 0.05
const REFRESH_MAX_MS = 900_000
/** After a failure. A table that must be written whole reads the whole lake. */
const REFRESH_RETRY_MS = 60_000
const REFRESH_RETRY_MAX_MS = 300_000

export function pauseAfter(cpuMs: number): number {
  return Math.min(Math.max(REFRESH_MS, cpuMs / REFRESH_SHARE), REFRESH_MAX_MS)
}

const STOP_PATIENCE_MS = 2_000
/** A day with this number of files is merged. With a new file every two seconds, a day then stays below 60 files. */
const CROWDED = 30

/** Failed work waits for the next hour. Several processes may run it at once. */
export class LakeMaintenance {
  readonly #options: LakeMaintenanceOptions & { now: () => Date }
  readonly #loop: Loop
  readonly #refreshing: Loop
  #fresh = ''
  /** The day of the last whole maintenance, and the hour of the last attempt, in UTC. */
  #day = ''
  #hour = ''
  readonly #unused: UnusedFiles = new Map()
  readonly #failed = new Set<string>()
  readonly #tables: { dataset: DatasetName; table: TableStore }[]

  constructor(options: LakeMaintenanceOptions) {
    this.#options = { now: () => new Date(), ...options }
    this.#tables = EVENT_TABLES.map(({ dataset, name }) => ({ dataset, table: new TableStore(options.store, name) }))
    this.#loop = new Loop({
      ...{ firstMs: EVERY_MS, everyMs: EVERY_MS },
      work: (signal) => this.round(signal),
      onFailure: (error, { isFirst }) => {
        if (isFirst) options.logger.warn({ err: error }, 'the lake cannot be maintained; it is retried')
      },
    })
    this.#refreshing = new Loop({
      ...{ firstMs: REFRESH_MS, everyMs: REFRESH_MS, retryMs: REFRESH_RETRY_MS, retryMaxMs: REFRESH_RETRY_MAX_MS },
      work: (signal) => this.refresh(signal),
      onFailure: (error, { isFirst }) => {
        if (isFirst) options.logger.warn({ err: error }, 'the tables of the newest state wait for the lake; they are retried')
      },
    })
  }

  async start(): Promise<void> {
    await Promise.all([this.#loop.start(), this.#refreshing.start()])
  }

  /** Every step may be killed, so a store that does not answer is not waited for. */
  stop(): Promise<void> {
    const stopped = Promise.all([this.#loop.stop(), this.#refreshing.stop()])
    return withinMs(STOP_PATIENCE_MS, stopped, undefined).then(() => {})
  }

  /** Does nothing while another process does it. Returns the pause before the next round, in milliseconds. */
  async refresh(signal?: AbortSignal): Promise<number> {
    const { store, url, now, onFresh } = this.#options
    const before = process.cpuUsage()
    const end = await this.#readEnd()
    if (end === null || end !== this.#fresh) {
      try {
        await withFreeTablesLock(url, () => writeDerivedTables(store, { signal, now }))
      } catch (error) {
        if (error instanceof LakeBusy) return REFRESH_MS
        throw error
      }
      this.#fresh = end ?? ''
    }
    onFresh?.()
    const { user, system } = process.cpuUsage(before)
    return pauseAfter((user + system) / 1_000)
  }

  async #readEnd(): Promise<string | null> {
    const { store } = this.#options
    const ends = await Promise.allSettled(this.#tables.map(({ dataset, table }) => readSnapshot(store, dataset, table)))
    return ends.every((end) => end.status === 'fulfilled')
      ? ends.map(({ value: { sequence, past } }) => `${sequence} ${past}`).join()
      : null
  }

  async round(signal?: AbortSignal): Promise<void> {
    const { url } = this.#options
    const hour = this.#options.now().toISOString().slice(0, 13)
    if (this.#hour !== hour) this.#failed.clear()
    const crowded = await this.#findCrowded()
    if (this.#hour === hour && crowded.size === 0) return
    try {
      await withFreeLakeLock(url, () => this.#maintain(hour, crowded, signal))
    } catch (error) {
      // Another process is maintaining or repairing the lake.
      if (!(error instanceof LakeBusy)) throw error
    }
  }

  async #maintain(hour: string, crowded: ReadonlySet<string>, signal?: AbortSignal): Promise<void> {
    const { store, url, now, logger } = this.#options
    const day = hour.slice(0, 10)
    const isFirst = this.#hour !== hour
    const isWhole = isFirst && this.#day !== day
    const options = { store, url, now, signal, isWanted: (wanted: string) => isWhole || crowded.has(wanted), leavesLarge: !isWhole }
    const { failures } = isFirst ? await maintainLake({ ...options, isWhole, unused: this.#unused }) : await compactLake(options)
    this.#hour = hour
    if (failures.length > 0) {
      logger.warn({ failures }, 'the lake is maintained, except for this')
      for (const failed of crowded) this.#failed.add(failed)
    } else if (isWhole) this.#day = day
  }

  async #findCrowded(): Promise<Set<string>> {
    const crowded = new Set<string>()
    for (const { dataset, table } of this.#tables) {
      const { files } = await readSnapshot(this.#options.store, dataset, table)
      for (const [day, own] of Map.groupBy(files, ({ ingestDate }) => ingestDate))
        if (own.length >= CROWDED && !this.#failed.has(day)) crowded.add(day)
    }
    return crowded
  }
}
