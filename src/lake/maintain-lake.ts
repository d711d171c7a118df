import type { Logger } from 'pino'
import { reasonOf } from '../db/loggable-error.ts'
import { OperatorError } from '../errors.ts'
import { Loop } from '../loop.ts'
import { type CompactOptions, compactLake } from './compact-lake.ts'
import { readSnapshot, settleMoved } from './iceberg/event-table.ts'
import { endLostSnapshots, expireSnapshots } from './iceberg/expire-snapshots.ts'
import { CATALOGUE_TABLES } from './iceberg/lake-table.ts'
import { TableStore } from './iceberg/table-store.ts'
import { writeDerivedTables } from './iceberg/write-derived-tables.ts'
import { LakeBusy, withLakeLock } from './lake-lock.ts'
import { DATASET_NAMES } from './lake-names.ts'
import { LakeFileGone, type LakeStore } from './lake-store.ts'

const HOUR_MS = 3_600_000
/** The default of Iceberg. */
export const KEEP_HOURS = 120

export interface MaintainOptions extends Pick<CompactOptions, 'store' | 'onMerged'> {
  now?: () => Date
  keepHours?: number
}

export interface MaintainReport {
  merged: number
  /** Tables of the newest state that were written again. */
  written: number
  /** Ended snapshots, and the files that were deleted. */
  snapshots: number
  files: number
  /** What could not be done, each in a line. */
  failures: string[]
}

/**
 * Everything that the lake needs from time to time: merges the files of each day, writes the tables of the newest state
 * again, and those whose files are damaged or gone, ends old snapshots and those that cannot be read, and deletes the
 * files that no snapshot has. Hold the lock of the lake's files meanwhile.
 */
export async function maintainLake({
  store,
  onMerged = () => {},
  now = () => new Date(),
  keepHours = KEEP_HOURS,
}: MaintainOptions): Promise<MaintainReport> {
  const report: MaintainReport = { merged: 0, written: 0, snapshots: 0, files: 0, failures: [] }
  const attempt = async (what: string, work: () => Promise<void>) => {
    try {
      await work()
    } catch (error) {
      if (!(error instanceof OperatorError || error instanceof LakeFileGone)) throw error
      report.failures.push(`${what}: ${reasonOf(error)}`)
    }
  }
  await attempt('merging', async () => {
    await settleMoved(store, now())
    const { merged, failures } = await compactLake({ store, isWanted: () => true, now, onMerged })
    report.merged += merged
    report.failures.push(...failures)
  })
  await attempt('tables of the newest state', async () => {
    report.written += await writeDerivedTables(store, { checksFiles: true })
  })
  for (const table of CATALOGUE_TABLES)
    await attempt(table.name, async () => {
      report.snapshots += await endLostSnapshots(store, table)
      await new TableStore(store, table.name).renewHint()
      const { snapshots, files } = await expireSnapshots(store, table, expiryOf(now(), keepHours), now())
      report.snapshots += snapshots
      report.files += files
    })
  return report
}

/** A snapshot of this very moment is older than the next one. */
function expiryOf(now: Date, keepHours: number): Date {
  return new Date(now.getTime() - (keepHours === 0 ? -1 : keepHours) * HOUR_MS)
}

export interface LakeMaintenanceOptions {
  store: LakeStore
  /** The database's address. */
  url: string
  logger: Logger
  now?: () => Date
}

const EVERY_MS = 60_000
/** A day gets a file each minute at most, and the merged ones: the rounds keep it below 60 files. */
const CROWDED = 30

/**
 * Keeps the lake small while the role `lake` runs: merges a day as soon as it has many files, and maintains the whole
 * lake at its start and once a day. Several processes may do so at once.
 */
export class LakeMaintenance {
  readonly #options: LakeMaintenanceOptions & { now: () => Date }
  readonly #loop: Loop
  /** The UTC day of the last maintenance of the whole lake. */
  #maintained = ''

  constructor(options: LakeMaintenanceOptions) {
    this.#options = { now: () => new Date(), ...options }
    this.#loop = new Loop({
      ...{ firstMs: EVERY_MS, everyMs: EVERY_MS },
      work: () => this.round(),
      onFailure: (error, { isFirst }) => {
        if (isFirst) options.logger.warn({ err: error }, 'the lake cannot be maintained; it is retried')
      },
    })
  }

  start(): Promise<void> {
    return this.#loop.start()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  /** Does what is due. */
  async round(): Promise<void> {
    const { url } = this.#options
    const today = this.#options.now().toISOString().slice(0, 10)
    const crowded = await this.#findCrowded()
    if (this.#maintained === today && crowded.size === 0) return
    try {
      await withLakeLock(url, () => this.#maintain(today, crowded))
    } catch (error) {
      // Another process does the same, or repairs the lake.
      if (!(error instanceof LakeBusy)) throw error
    }
  }

  async #maintain(today: string, crowded: ReadonlySet<string>): Promise<void> {
    const { store, now, logger } = this.#options
    const isDaily = this.#maintained !== today
    const { failures } = isDaily
      ? await maintainLake({ store, now })
      : await compactLake({ store, now, isWanted: (day) => crowded.has(day) })
    if (failures.length > 0) logger.warn({ failures }, 'the lake is maintained but for this')
    this.#maintained = today
  }

  async #findCrowded(): Promise<Set<string>> {
    const crowded = new Set<string>()
    for (const dataset of DATASET_NAMES) {
      const { files } = await readSnapshot(this.#options.store, dataset)
      for (const [day, own] of Map.groupBy(files, ({ ingestDate }) => ingestDate)) if (own.length >= CROWDED) crowded.add(day)
    }
    return crowded
  }
}
