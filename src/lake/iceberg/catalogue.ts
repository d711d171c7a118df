import { AppError } from '../../errors.ts'
import type { LakeStore } from '../lake-store.ts'
import { CATALOGUE_TABLES } from './lake-table.ts'
import type { TableMetadata } from './table-metadata.ts'
import { TableStore } from './table-store.ts'

export interface LoadedTable {
  location: string
  metadata: TableMetadata
}

/** The lake's Iceberg tables, for readers. Opens the lake at the first use. */
export class Catalogue {
  readonly #open: () => Promise<LakeStore>
  #store: Promise<LakeStore> | null = null

  constructor(open: () => Promise<LakeStore>) {
    this.#open = open
  }

  /** Names of the tables that have been written. */
  async list(): Promise<string[]> {
    const found = await Promise.all(CATALOGUE_TABLES.map(async ({ name }) => ((await this.load(name)) === null ? [] : [name])))
    return found.flat()
  }

  /** The newest version of a table; null when there is none. Throws `unavailable` while the lake cannot be read. */
  async load(name: string): Promise<LoadedTable | null> {
    if (!CATALOGUE_TABLES.some((table) => table.name === name)) return null
    try {
      this.#store ??= this.#open().catch((error) => {
        this.#store = null
        throw error
      })
      const table = new TableStore(await this.#store, name)
      const { newest } = await table.read()
      return newest === null ? null : { location: table.locate(newest.name), metadata: newest.metadata }
    } catch (error) {
      if (!isStorageFault(error)) throw error
      throw new AppError('unavailable', 'The lake cannot be read now. Retry in a moment.', { cause: error })
    }
  }

  /** Idempotent, safe before the first use. */
  async close(): Promise<void> {
    // The caller of `load` has the error of an opening.
    const store = await this.#store?.catch(() => null)
    store?.close()
  }
}

/** Whether the folder or the bucket failed: an error of the system, or of AWS's SDK. */
function isStorageFault(error: unknown): boolean {
  const { errno, $metadata } = (error ?? {}) as { errno?: number; $metadata?: object }
  return errno !== undefined || $metadata !== undefined
}
