import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { setFlagsFromString } from 'node:v8'
import { exportCatalogue } from './catalogue/export-catalogue.ts'
import { importCatalogue } from './catalogue/import-catalogue.ts'
import { type ImportFormat, readImportLines } from './catalogue/import-lines.ts'
import { type Command, type Terminal, withDatabase } from './commands.ts'
import type { Config } from './config.ts'

/** Imports products from a file, `-` for standard input. Status 1 when a line was refused; the others are imported all the same. */
export function importCommand(config: Config, terminal: Terminal, file: string, format: ImportFormat | undefined): Command {
  // Lines come and go faster than V8 likes to clean up: without this a long import takes a hundred megabytes more, and no less time.
  setFlagsFromString('--optimize-for-size')
  setFlagsFromString('--semi-space-growth-factor=1')
  return withDatabase(config, terminal, async (pool) => {
    const source = file === '-' ? process.stdin : createReadStream(file)
    const lines = readImportLines(source, { format, fileName: file === '-' ? undefined : file, currency: config.currency })
    const onError = (line: number, reason: string) => terminal.err(`line ${line}: ${reason}`)
    const onProgress = importProgress(terminal)
    const { created, updated, unchanged, failed } = await importCatalogue(pool, lines, onError, { onProgress })
    terminal.out(`${created} created, ${updated} updated, ${unchanged} unchanged, ${failed} refused`)
    return failed === 0 ? 0 : 1
  })
}

const PROGRESS_MS = 2_000

/** Says now and then how far a long import has come. */
function importProgress({ err }: Terminal): (lines: number) => void {
  const startedAt = performance.now()
  let saidAt = startedAt
  return (lines) => {
    const now = performance.now()
    if (now - saidAt < PROGRESS_MS) return
    saidAt = now
    const perSecond = Math.round((lines / (now - startedAt)) * 1_000)
    err(`${lines.toLocaleString('en')} lines, ${perSecond.toLocaleString('en')} a second`)
  }
}

/** Writes the catalogue to standard output, in a form that the import reads back. */
export function exportCommand(config: Config, terminal: Terminal, format: ImportFormat, withStock: boolean): Command {
  return withDatabase(config, terminal, async (pool) => {
    try {
      await pipeline(exportCatalogue(pool, format, { withStock }), process.stdout, { end: false })
      return 0
    } catch (error) {
      // Whoever reads has seen enough, such as `head`.
      if ((error as NodeJS.ErrnoException).code === 'EPIPE') return 0
      throw error
    }
  })
}
