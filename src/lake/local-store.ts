import type { Stats } from 'node:fs'
import { link, mkdir, mkdtemp, open, readdir, readFile, rename, rm, stat, unlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { asideOf, isCompleteName, type LakeFile, LakeFileGone, type LakeStore, type ListedFile } from './lake-store.ts'

const TEMPORARY_FOLDER = '.tmp'
const LEFT_OVER_MS = 86_400_000
// A block, for which a full disk has no room.
const PROBE = 'x'.repeat(4_096)

/** `put` uses a hard link, which unlike a rename never replaces a file. */
export class LocalLakeStore implements LakeStore {
  readonly #directory: string

  constructor(directory: string) {
    this.#directory = directory
  }

  locate(name: string): string {
    return join(this.#directory, name)
  }

  // Hard links never replace a file, so only write access must be checked.
  async assertSuitable(): Promise<void> {
    await this.withWorkspace((folder) => writeFile(join(folder, 'probe'), PROBE, { flush: true }))
  }

  async list(prefix: string): Promise<ListedFile[]> {
    const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1)
    const names = await this.#walk(folder, prefix)
    const files = await Promise.all(names.map((name) => this.#describe(name)))
    return files.filter((file) => file !== null).sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  async put(name: string, path: string): Promise<'stored' | 'taken'> {
    const target = this.locate(name)
    const folder = dirname(target)
    await makeDirectory(folder)
    try {
      await link(path, target)
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error
      if (!(await hasSameBytes(path, target))) return 'taken'
      await syncDirectory(folder)
      return 'stored'
    }
    try {
      await syncDirectory(folder)
    } catch (error) {
      // The file is not durable and must not count as stored. A second sync would succeed, whatever the first one has
      // lost.
      await unlink(target)
      throw error
    }
    return 'stored'
  }

  async replace(name: string, path: string): Promise<void> {
    const target = this.locate(name)
    await makeDirectory(dirname(target))
    await rename(path, target)
    await syncDirectory(dirname(target))
  }

  async read(name: string): Promise<Uint8Array> {
    try {
      return await readFile(this.locate(name))
    } catch (error) {
      if (isMissing(error)) throw new LakeFileGone(`${this.locate(name)} is gone`)
      throw error
    }
  }

  async delete(name: string): Promise<void> {
    await rm(this.locate(name), { force: true })
  }

  async quarantineCopy(name: string): Promise<string> {
    const path = this.locate(name)
    for (let copies = 0; ; copies++) {
      const aside = asideOf(path, copies)
      try {
        await link(path, aside)
      } catch (error) {
        if (codeOf(error) !== 'EEXIST') throw error
        if (!(await hasSameBytes(path, aside))) continue
      }
      await syncDirectory(dirname(path))
      return aside
    }
  }

  async quarantine(name: string): Promise<string> {
    const aside = await this.quarantineCopy(name)
    await this.delete(name)
    await syncDirectory(dirname(aside))
    return aside
  }

  async withCopies<T>(files: readonly LakeFile[], work: (paths: string[]) => Promise<T>): Promise<T> {
    try {
      return await work(files.map(({ name }) => this.locate(name)))
    } finally {
      await this.#assertThere(files)
    }
  }

  async withWorkspace<T>(work: (folder: string) => Promise<T>): Promise<T> {
    // Hard links need the folder on the same file system as the files.
    const parent = join(this.#directory, TEMPORARY_FOLDER)
    await makeDirectory(parent)
    return withTemporaryFolder(parent, work)
  }

  async removeOldWorkspaces(): Promise<void> {
    await removeOldEntries(join(this.#directory, TEMPORARY_FOLDER))
  }

  close(): void {}

  async #walk(folder: string, prefix: string): Promise<string[]> {
    const names: string[] = []
    for (const entry of await listEntries(join(this.#directory, folder))) {
      const name = `${folder}${entry.name}`
      const isOnTheWay = name.startsWith(prefix) || prefix.startsWith(`${name}/`)
      if (entry.isDirectory() && isOnTheWay) names.push(...(await this.#walk(`${name}/`, prefix)))
      else if (entry.isFile() && isCompleteName(name) && name.startsWith(prefix)) names.push(name)
    }
    return names
  }

  async #describe(name: string): Promise<ListedFile | null> {
    const stats = await statExisting(this.locate(name))
    return stats === null ? null : { name, sizeBytes: stats.size, storedAt: stats.mtimeMs }
  }

  async #assertThere(files: readonly LakeFile[]): Promise<void> {
    for (const { name } of files) {
      if ((await this.#describe(name)) === null) throw new LakeFileGone(`${this.locate(name)} is gone`)
    }
  }
}

export async function withTemporaryFolder<T>(parent: string, work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(parent, 'work-'))
  try {
    return await work(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

export async function removeOldEntries(directory: string): Promise<void> {
  for (const { name } of await listEntries(directory)) {
    const path = join(directory, name)
    const changedAt = (await statExisting(path))?.mtimeMs ?? Number.POSITIVE_INFINITY
    if (changedAt < Date.now() - LEFT_OVER_MS) await rm(path, { recursive: true, force: true })
  }
}

export async function statExisting(path: string): Promise<Stats | null> {
  try {
    return await stat(path)
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}

export async function listEntries(directory: string) {
  try {
    return await readdir(directory, { withFileTypes: true })
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

async function hasSameBytes(path: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([stat(path), stat(other)])
  if (a.ino === b.ino && a.dev === b.dev) return true
  return a.size === b.size && (await readFile(path)).equals(await readFile(other))
}

/** Syncs each parent, because a power cut may otherwise remove the new folder. */
async function makeDirectory(path: string, isRepeated = false): Promise<void> {
  try {
    await mkdir(path)
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return
    // A name that is still missing below an existing parent is a link to a missing place.
    if (!isMissing(error) || isRepeated) throw error
    await makeDirectory(dirname(path))
    return makeDirectory(path, true)
  }
  await syncDirectory(dirname(path))
}

async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path, 'r')
  await directory.sync()
}

function isMissing(error: unknown): boolean {
  return codeOf(error) === 'ENOENT'
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
