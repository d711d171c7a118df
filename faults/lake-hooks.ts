import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

// Wraps the calls that change a lake in a folder. Must run before src/ is loaded, which would import the original
// calls.

const LAKE_FILE = /\/(orders|catalogue)\/ingest_date=[^/]+\/[^/]+\.parquet$/
const OF_CATALOGUE = /\/catalogue\/|\/iceberg\/(catalogue_events|products|prices|stock_events)\//
const STEPS = [
  [LAKE_FILE, 'link'],
  [/\/iceberg\/\w+\/data\//, 'data'],
  [/\/iceberg\/\w+\/metadata\/v\d+\./, 'metadata'],
] as const

/**
 * `before link`, `after link`: of a file of events; `before data`, `after data`: of a file of another table; `before
 * metadata`, `after metadata`: of the version of a table that makes its files visible. Those of the catalogue begin
 * with `catalogue `.
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
 * Every other sync of a file or folder of the lake fails `times` times as the kernel's does: EIO once, what was not
 * written is gone, and the next sync of the same file succeeds.
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
