import { AppError } from '../../errors.ts'
import type { LakeStore } from '../lake-store.ts'
import { CATALOGUE_TABLES } from './lake-table.ts'
import type { TableMetadata } from './table-metadata.ts'
import { TableStore } from './table-store.ts'

export interface LoadedTable {
  location: string
  metadata: TableMetadata
}

/** The Iceberg tables of the lake, for readers. The lake is opened at the first use. */
export class Catalogue {
  readonly #open: () => Promise<LakeStore>
  #store: Promise<LakeStore> | null = null

  constructor(open: () => Promise<LakeStore>) {
    this.#open = open
  }

  async list(): Promise<string[]> {
    const found = await Promise.all(CATALOGUE_TABLES.map(async ({ name }) => ((await this.load(name)) === null ? [] : [name])))
    return found.flat()
  }

  /** Loads a table. Returns null if no table has this name. Throws `unavailable` while the lake cannot be read. */
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

  async close(): Promise<void> {
    const store = await this.#store?.catch(() => null)
    store?.close()
  }
}

function isStorageFault(error: unknown): boolean {
  const { errno, $metadata } = (error ?? {}) as { errno?: number; $metadata?: object }
  return errno !== undefined || $metadata !== undefined
}
