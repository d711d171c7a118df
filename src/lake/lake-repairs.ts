import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { checkChecksum } from './lake-checksum.ts'
import { LakeBusy } from './lake-lock.ts'
import { padSequence } from './lake-names.ts'
import { type LakeFile, LakeFileGone, type LakeStore } from './lake-store.ts'
import { readParquetName } from './parquet-writer.ts'

const FOLDER = '.pending/'
const CLAIM = /^\.pending\/repair-(\d{16})\.parquet$/
const DONE = /^\.pending\/repaired-(\d{16})\.parquet$/

/**
 * Writes the files of repairs, one after the other. A repair claims the next number by storing its complete file under
 * that number's name, and the mark of a finished number stays until the next one is finished. So a repair that lost its
 * lock, was paused and continues can add nothing to the files of its successors: its number is taken, or marked as
 * finished. See decision 0157.
 */
export class LakeRepairs {
  readonly #store: LakeStore
  readonly #assertHeld: () => Promise<void>
  #newest = 0

  /** `assertHeld` throws when another process may repair now: an optimisation, not the protection. */
  constructor(store: LakeStore, assertHeld: () => Promise<void>) {
    this.#store = store
    this.#assertHeld = assertHeld
  }

  /** Finishes the claimed files of other repairs. Read the lake only after this. */
  async start(): Promise<void> {
    for (;;) {
      const files = await this.#store.list(FOLDER)
      this.#newest = newestDone(files)
      const claims = files.filter(({ name }) => CLAIM.test(name))
      for (const { name } of claims) if (numberOf(CLAIM, name) <= this.#newest) await this.#store.delete(name)
      const open = claims.find(({ name }) => numberOf(CLAIM, name) > this.#newest)
      if (open === undefined) return
      await this.#finish(open)
    }
  }

  /** Adds the file at `path`, named in its metadata. Throws LakeBusy, and adds nothing, when another was faster. */
  async put(name: string, path: string): Promise<void> {
    await this.#assertHeld()
    const number = this.#newest + 1
    const claim = claimOf(number)
    if ((await this.#store.put(claim, path)) === 'taken') throw new LakeBusy(OVERTAKEN)
    if (!(await this.#publish(claim, number, name, path))) throw new LakeBusy(OVERTAKEN)
    this.#newest = number
  }

  async #finish(claim: LakeFile): Promise<void> {
    const number = numberOf(CLAIM, claim.name)
    const publish = async ([path = '']: string[]) => {
      // The claim is damaged: the repair that starts now finds the same faults again.
      const name = (await checkChecksum(path)) === 'right' ? await readParquetName(path) : null
      if (name !== null) return this.#publish(claim.name, number, name, path)
      await this.#store.quarantine(claim.name)
      await this.#mark(number)
      return false
    }
    await this.#store.withCopies([claim], publish, { isFresh: true }).catch((error) => {
      // Another process has finished it.
      if (!(error instanceof LakeFileGone)) throw error
    })
  }

  /** Publishes the claim's bytes, at `path`, unless its number is marked as finished: then it is late and deleted. */
  async #publish(claim: string, number: number, name: string, path: string): Promise<boolean> {
    const isFree = newestDone(await this.#store.list(FOLDER)) < number
    if (isFree) {
      await this.#store.put(name, path)
      await this.#mark(number)
    }
    await this.#store.delete(claim)
    return isFree
  }

  async #mark(number: number): Promise<void> {
    await this.#store.withWorkspace(async (folder) => {
      const path = join(folder, 'mark')
      await writeFile(path, `repair ${number} is done\n`)
      await this.#store.put(doneOf(number), path)
    })
    for (const { name } of await this.#store.list(FOLDER)) if (numberOf(DONE, name) < number) await this.#store.delete(name)
  }
}

const OVERTAKEN = 'another process has repaired the lake meanwhile'

const claimOf = (number: number) => `${FOLDER}repair-${padSequence(number)}.parquet`
const doneOf = (number: number) => `${FOLDER}repaired-${padSequence(number)}.parquet`

/** The number in the name; NaN for other files. */
function numberOf(pattern: RegExp, name: string): number {
  return Number(pattern.exec(name)?.[1] ?? Number.NaN)
}

function newestDone(files: readonly LakeFile[]): number {
  return files.reduce((newest, { name }) => Math.max(newest, DONE.test(name) ? numberOf(DONE, name) : 0), 0)
}
