import { createHash, randomUUID } from 'node:crypto'
import { link, mkdir, rename, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { LakeFile } from './lake-store.ts'
import { listEntries, statExisting } from './local-store.ts'

/**
 * Copies of lake files. The least recently used ones are deleted first. Processes may share the folder, because each
 * use has a hard link of its own.
 */
export class FileCache {
  readonly #directory: string
  readonly #maxBytes: number

  constructor(directory: string, maxBytes: number) {
    this.#directory = directory
    this.#maxBytes = maxBytes
  }

  /**
   * `path` is on the cache's file system. `fetch` writes the file there when the cache lacks it, and returns whether
   * the bytes are those of the file.
   */
  async place(file: LakeFile, path: string, fetch: (path: string) => Promise<boolean>): Promise<void> {
    if (await this.#link(file, path)) return
    if (await fetch(path)) await this.keep(file, path)
  }

  async #link(file: LakeFile, path: string): Promise<boolean> {
    const kept = this.#pathOf(file)
    try {
      await link(kept, path)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      return false
    }
    const isWhole = (await stat(path)).size === file.sizeBytes
    const now = new Date()
    if (isWhole) await utimes(path, now, now)
    // A power cut may have left an empty or a shorter copy.
    else for (const copy of [kept, path]) await rm(copy, { force: true })
    return isWhole
  }

  async keep(file: LakeFile, path: string): Promise<void> {
    await mkdir(this.#directory, { recursive: true })
    const own = join(this.#directory, `${randomUUID()}.new`)
    await link(path, own)
    await rename(own, this.#pathOf(file))
  }

  async trim(): Promise<void> {
    const entries = await listEntries(this.#directory)
    const describe = async (path: string) => ({ path, stats: await statExisting(path) })
    const kept = await Promise.all(entries.map(({ name }) => describe(join(this.#directory, name))))
    kept.sort((a, b) => (b.stats?.mtimeMs ?? 0) - (a.stats?.mtimeMs ?? 0))
    let sum = 0
    for (const { path, stats } of kept) {
      sum += stats?.size ?? 0
      if (sum > this.#maxBytes) await rm(path, { force: true })
    }
  }

  #pathOf({ name, sizeBytes }: LakeFile): string {
    return join(this.#directory, createHash('sha256').update(`${name}\n${sizeBytes}`).digest('hex'))
  }
}
