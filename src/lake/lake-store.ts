/** A complete file. `name` is its path from the lake's root, with slashes. */
export interface LakeFile {
  name: string
  sizeBytes: number
  /** When it appeared, or later: milliseconds since 1970. */
  storedAt: number
  /** Changes when other bytes take the same name. */
  tag: string
}

/** A file that was listed has been replaced meanwhile: list again. */
export class LakeFileGone extends Error {
  override readonly name = 'LakeFileGone'
}

/** Where the lake's files are. Every adapter passes `lake-store-conformance.ts`. */
export interface LakeStore {
  /** What people call the file: a path, or an address that begins with `s3://`. */
  locate(name: string): string
  /**
   * Complete files whose name begins with `prefix` and sorts behind `after`, in order of name. While files come and go it is no
   * snapshot: see `listLake`.
   */
  list(prefix: string, after?: string): Promise<LakeFile[]>
  /**
   * Lets a finished file appear under this name: whole or not at all, durable, and never in place of another. `taken` when there is
   * another one with that name; the same bytes again are `stored`, so that it can be repeated after a lost answer.
   */
  put(name: string, path: string): Promise<'stored' | 'taken'>
  /** Removes a file; one that is not there is no error. */
  delete(name: string): Promise<void>
  /** Copies a file to where no reader of the lake looks, so that it can be replaced. Returns where the copy is. May be repeated. */
  copyAside(name: string): Promise<string>
  /** Takes a file out of the lake without destroying it. Returns where it is now. */
  setAside(name: string): Promise<string>
  /**
   * Runs `work` with paths of readable files, in the order given. `isFresh`: as the store has them now, not from a cache. Throws
   * LakeFileGone when one of them is gone, also afterwards: what `work` has seen may then be incomplete.
   */
  withCopies<T>(files: readonly LakeFile[], work: (paths: string[]) => Promise<T>, options?: { isFresh?: boolean }): Promise<T>
  /** Runs `work` with a folder of its own, removed afterwards, from which `put` can take files. */
  withWorkspace<T>(work: (folder: string) => Promise<T>): Promise<T>
  /** Removes what killed processes left in workspaces: whatever is older than a day, for others may be at work now. */
  removeOldWorkspaces(): Promise<void>
  /** Ends what is under way with an error, so that a process can stop. Idempotent. */
  close(): void
}
