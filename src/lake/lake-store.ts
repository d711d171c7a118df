import { OperatorError } from '../errors.ts'

/** `name` is the path from the lake's root, with slashes. A name never gets other bytes. */
export interface LakeFile {
  name: string
  sizeBytes: number
}

export interface ListedFile extends LakeFile {
  /** When the file was stored, or a later time, in milliseconds since 1970. */
  storedAt: number
}

const COMPLETE = /\.(parquet|avro|metadata\.json)$/

export function asideOf(name: string, copies: number): string {
  return `${name}${copies === 0 ? '' : `.${copies}`}.corrupt`
}

/** Whether a name is that of a complete lake file. Other files are in progress, quarantined, or foreign. */
export function isCompleteName(name: string): boolean {
  return COMPLETE.test(name)
}

/** A listed file has been replaced meanwhile. List again. */
export class LakeFileGone extends Error {
  override readonly name = 'LakeFileGone'
}

/** `work` lists files first. It is repeated when one of them is gone before it is read. */
export async function repeatWhenGone<T>(maxAttempts: number, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof LakeFileGone) || attempt === maxAttempts) throw error
    }
  }
}

export class UnsuitableBucket extends OperatorError {
  override readonly name = 'UnsuitableBucket'

  constructor(fault: string, options?: ErrorOptions) {
    super(
      `${fault}; use a server with conditional writes (If-None-Match: *), because two processes could replace the files of each other`,
      options,
    )
  }
}

/** Every adapter passes `lake-store-conformance.ts`. */
export interface LakeStore {
  /** Throws UnsuitableBucket if two processes could replace each other's files. Leaves nothing behind. */
  assertSuitable(): Promise<void>
  locate(name: string): string
  /**
   * Lists complete files in order of their names. The list is no snapshot, because files may be added and deleted
   * during it: see `readSnapshot`.
   */
  list(prefix: string): Promise<ListedFile[]>
  /**
   * Stores a file, which is complete and durable afterwards. Returns `taken` if the name has another file. Storing the
   * same bytes again returns `stored`, so a call can be repeated.
   */
  put(name: string, path: string): Promise<'stored' | 'taken'>
  /** Replaces a hint. Nothing else of the lake is replaced. */
  replace(name: string, path: string): Promise<void>
  read(name: string): Promise<Uint8Array>
  delete(name: string): Promise<void>
  /** The copy's name is for no reader, so the file can be replaced. Returns its path or address. Idempotent. */
  quarantineCopy(name: string): Promise<string>
  /** Moves a file out of the lake without deleting it. Returns its new path or address. */
  quarantine(name: string): Promise<string>
  /**
   * Runs `work` with local paths of the files. With `isFresh`, no cache is used. Throws LakeFileGone even after `work`,
   * because `work` may have read incomplete data.
   */
  withCopies<T>(files: readonly LakeFile[], work: (paths: string[]) => Promise<T>, options?: { isFresh?: boolean }): Promise<T>
  withWorkspace<T>(work: (folder: string) => Promise<T>): Promise<T>
  /** Deletes workspaces that are older than a day. Newer ones may be in use. */
  removeOldWorkspaces(): Promise<void>
  close(): void
}
