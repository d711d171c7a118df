import { OperatorError } from '../errors.ts'

/** A complete file. `name` is its path from the lake's root, with slashes; a name never gets other bytes. */
export interface LakeFile {
  name: string
  sizeBytes: number
}

export interface ListedFile extends LakeFile {
  /** When it was stored, or later: milliseconds since 1970. */
  storedAt: number
}

const COMPLETE = /\.(parquet|avro|metadata\.json)$/

/**
 * The name under which a damaged file is kept: `copies` is the number of earlier ones of its name, whose bytes differ.
 */
export function asideOf(name: string, copies: number): string {
  return `${name}${copies === 0 ? '' : `.${copies}`}.corrupt`
}

/** Whether a name is that of a complete file: others are in progress, quarantined, or strange. */
export function isCompleteName(name: string): boolean {
  return COMPLETE.test(name)
}

/** A listed file has been replaced meanwhile: list again. */
export class LakeFileGone extends Error {
  override readonly name = 'LakeFileGone'
}

/** Runs `work`, which lists files first, again when one of them is gone by the time it is read. */
export async function repeatWhenGone<T>(maxAttempts: number, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof LakeFileGone) || attempt === maxAttempts) throw error
    }
  }
}

/** A bucket without conditional writes: two processes could replace the files of each other. */
export class UnsuitableBucket extends OperatorError {
  override readonly name = 'UnsuitableBucket'

  constructor(fault: string, options?: ErrorOptions) {
    super(
      `${fault}; use a server with conditional writes (If-None-Match: *), because two processes could replace the files of each other`,
      options,
    )
  }
}

/** The storage of the lake's files. Every adapter passes `lake-store-conformance.ts`. */
export interface LakeStore {
  /** Throws UnsuitableBucket when two processes could replace the files of each other. Leaves nothing behind; `put` checks it, too. */
  assertSuitable(): Promise<void>
  /** The file for people: a path, or an address that begins with `s3://`. */
  locate(name: string): string
  /**
   * Complete files whose name begins with `prefix`, in order of name. The list is no snapshot while files are added and
   * deleted: see `readSnapshot`.
   */
  list(prefix: string): Promise<ListedFile[]>
  /**
   * Stores a finished file under this name: complete, durable, and never in place of another. `taken` when another file
   * has the name. The same bytes again are `stored`, so that a call can be repeated after a lost response.
   */
  put(name: string, path: string): Promise<'stored' | 'taken'>
  /**
   * Stores a finished file in place of the one that has the name. It is for hints: nothing else of the lake is
   * replaced.
   */
  replace(name: string, path: string): Promise<void>
  /** The bytes of a small file. Throws LakeFileGone. */
  read(name: string): Promise<Uint8Array>
  /** Deletes a file. A missing one is no error. */
  delete(name: string): Promise<void>
  /** Copies a file to a name that no reader of the lake reads, so that it can be replaced. Returns its path or address. Idempotent. */
  quarantineCopy(name: string): Promise<string>
  /** Removes a file from the lake without deleting it. Returns its new place. */
  quarantine(name: string): Promise<string>
  /**
   * Runs `work` with local paths of the files, in the given order. `isFresh`: not from a cache. Throws LakeFileGone
   * when one of them is gone, also after `work`, which may have read incomplete data then.
   */
  withCopies<T>(files: readonly LakeFile[], work: (paths: string[]) => Promise<T>, options?: { isFresh?: boolean }): Promise<T>
  /** Runs `work` with a temporary folder, from which `put` can store files. */
  withWorkspace<T>(work: (folder: string) => Promise<T>): Promise<T>
  /** Deletes workspaces of killed processes: those older than a day, because newer ones may be in use. */
  removeOldWorkspaces(): Promise<void>
  /** Aborts operations in flight, so that a process can stop. Idempotent. */
  close(): void
}
