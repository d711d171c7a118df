import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

// Wraps the calls that change a lake in a folder. Must run before src/ is loaded, which would otherwise import the
// original calls.

const LAKE_FILE = /\/(orders|catalogue)\/ingest_date=[^/]+\/[^/]+\.parquet$/
const OF_CATALOGUE = /\/catalogue\/|\/iceberg\/(catalogue_events|products|prices|stock_events)\//
const STEPS = [
  [LAKE_FILE, 'link'],
  [/\/iceberg\/\w+\/data\//, 'data'],
  [/\/iceberg\/\w+\/metadata\/v\d+\./, 'metadata'],
] as const

/**
 * Calls `dieAt` at each step. `before link` and `after link` concern a file of events, `before data` and `after data` a
 * file of another table, and `before metadata` and `after metadata` the table version that makes its files visible. The
 * catalogue's steps begin with `catalogue `.
 */
export function hookLakeSteps(dieAt: (step: string) => void): void {
  const { link } = fs.promises
  fs.promises.link = async (from, to) => {
    const step = STEPS.find(([pattern]) => pattern.test(String(to)))?.[1]
    if (step !== undefined) dieAt(`${datasetOf(to)}before ${step}`)
    await link(from, to)
    if (step !== undefined) dieAt(`${datasetOf(to)}after ${step}`)
  }
  syncBuiltinESMExports()
}

function datasetOf(path: unknown): 'catalogue ' | '' {
  return OF_CATALOGUE.test(String(path)) ? 'catalogue ' : ''
}

/**
 * Makes every second sync of a lake file or folder fail, `times` times, in the kernel's way: EIO once, unwritten data
 * is lost, and the next sync of the same file succeeds.
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
