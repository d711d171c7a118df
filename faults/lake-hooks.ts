import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

// Wraps the calls that change a lake in a folder. Must run before src/ is loaded, which would import the original calls.

/** `before claim`, `after claim`: of the link that decides which file is next; `before link`, `after link`: of the link that publishes it. */
export function hookLakeSteps(dieAt: (step: string) => void): void {
  const { link, rm } = fs.promises
  fs.promises.link = async (from, to) => {
    const step = String(to).includes('/.pending/') ? 'claim' : /\/orders\/.*\.parquet$/.test(String(to)) ? 'link' : null
    if (step !== null) dieAt(`before ${step}`)
    await link(from, to)
    if (step !== null) dieAt(`after ${step}`)
  }
  fs.promises.rm = async (path, options) => {
    const isLakeFile = /\/orders\/.*\.parquet$/.test(String(path))
    if (isLakeFile) dieAt('before delete')
    await rm(path, options)
    if (isLakeFile) dieAt('after delete')
  }
  syncBuiltinESMExports()
}

/**
 * Every other sync of a file or folder of the lake fails `times` times as the kernel's does: EIO once, what was not written is gone, and
 * the next sync of the same file succeeds.
 */
export function failSyncs(times: number): void {
  const open = fs.promises.open
  let [remaining, isNext] = [times, true]
  fs.promises.open = async (path, ...rest) => {
    const file = await open(path, ...rest)
    if (!String(path).includes('/lake/')) return file
    const sync = file.sync.bind(file)
    file.sync = async () => {
      isNext = !isNext
      if (isNext || remaining-- <= 0) return sync()
      const status = await file.stat()
      if (status.isFile()) await file.truncate(Math.floor(status.size / 2))
      throw Object.assign(new Error('EIO: i/o error, fsync'), { code: 'EIO', syscall: 'fsync' })
    }
    return file
  }
  syncBuiltinESMExports()
}
