import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { setFlagsFromString } from 'node:v8'
import { exportCatalogue } from '../catalogue/import/export-catalogue.ts'
import { importCatalogue } from '../catalogue/import/import-catalogue.ts'
import { type ImportFormat, readImportLines } from '../catalogue/import/import-lines.ts'
import type { Contexts, Terminal } from './command.ts'

/** Imports products from a file, `-` for standard input. Status 1 when a line was refused; the others are imported all the same. */
export async function importFile(
  { pool, config, terminal }: Contexts['database'],
  file: string,
  format: ImportFormat | undefined,
): Promise<number> {
  // Without these a long import takes a hundred megabytes more, and the same time: V8 collects the many short-lived lines too late.
  setFlagsFromString('--optimize-for-size')
  setFlagsFromString('--semi-space-growth-factor=1')
  const source = file === '-' ? process.stdin : createReadStream(file)
  // An error of reading, unlike one of opening, does not name the file.
  source.on('error', (error: NodeJS.ErrnoException) => {
    error.path ??= file
  })
  const lines = readImportLines(source, { format, fileName: file === '-' ? undefined : file, currency: config.currency })
  const onError = (line: number, reason: string) => terminal.err(`line ${line}: ${reason}`)
  const onProgress = importProgress(terminal)
  const { created, updated, unchanged, failed } = await importCatalogue(pool, lines, onError, { onProgress })
  terminal.out(`${created} created, ${updated} updated, ${unchanged} unchanged, ${failed} refused`)
  return failed === 0 ? 0 : 1
}

const PROGRESS_MS = 2_000

/** Prints the progress of a long import every two seconds. */
function importProgress({ err }: Terminal): (lines: number) => void {
  const startedAt = performance.now()
  let printedAt = startedAt
  return (lines) => {
    const now = performance.now()
    if (now - printedAt < PROGRESS_MS) return
    printedAt = now
    const perSecond = Math.round((lines / (now - startedAt)) * 1_000)
    err(`${lines.toLocaleString('en')} lines, ${perSecond.toLocaleString('en')} a second`)
  }
}

/** Writes the catalogue to standard output, in the form that the import reads. */
export async function exportProducts({ pool }: Contexts['database'], format: ImportFormat, withStock: boolean): Promise<number> {
  try {
    await pipeline(exportCatalogue(pool, format, { withStock }), process.stdout, { end: false })
    return 0
  } catch (error) {
    // A reader such as `head` has closed the pipe.
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') return 0
    throw error
  }
}
