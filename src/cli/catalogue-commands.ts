import { createReadStream, type ReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { setFlagsFromString } from 'node:v8'
import { auditContextOfCommand } from '../activity/record-activity.ts'
import { exportCatalogue } from '../catalogue/import/export-catalogue.ts'
import { importCatalogue } from '../catalogue/import/import-catalogue.ts'
import { type ImportFormat, readImportLines } from '../catalogue/import/import-lines.ts'
import type { Contexts } from './command.ts'
import { createProgress } from './progress.ts'

/** Imports products from a file, `-` for standard input. Status 1 when a line was refused; the others are imported all the same. */
export async function importFile(
  { pool, config, terminal }: Contexts['database'],
  file: string,
  { format, encoding }: { format: ImportFormat | undefined; encoding: string | undefined },
): Promise<number> {
  // These save a hundred megabytes in a long import, and cost no time: V8 collects the many short-lived lines too late.
  setFlagsFromString('--optimize-for-size')
  setFlagsFromString('--semi-space-growth-factor=1')
  const source = file === '-' ? process.stdin : openFile(file)
  const fileName = file === '-' ? undefined : file
  const lines = readImportLines(source, { format, fileName, currency: config.currency, encoding })
  const progress = createProgress()
  const onError = (line: number, reason: string) => {
    progress.clear()
    terminal.err(`line ${line}: ${reason}`)
  }
  progress.show('Importing')
  const onProgress = (count: number) => progress.show(`Imported ${count.toLocaleString('en')} lines`)
  const settings = { onProgress, auditContext: auditContextOfCommand('catalogue import') }
  const { created, updated, unchanged, failed } = await importCatalogue(pool, lines, onError, settings).finally(progress.end)
  terminal.out(`${created} created, ${updated} updated, ${unchanged} unchanged, ${failed} refused`)
  return failed === 0 ? 0 : 1
}

export function openFile(file: string): ReadStream {
  // An error of reading, unlike one of opening, does not name the file.
  return createReadStream(file).on('error', (error: NodeJS.ErrnoException) => {
    error.path ??= file
  })
}

/** Writes the catalogue to standard output, in the form that the import reads. */
export async function exportProducts(
  { pool }: Contexts['database'],
  format: ImportFormat | undefined,
  content: { withStock: boolean; forSpreadsheets: boolean },
): Promise<number> {
  try {
    await pipeline(exportCatalogue(pool, format ?? (content.forSpreadsheets ? 'csv' : 'ndjson'), content), process.stdout, { end: false })
    return 0
  } catch (error) {
    // A reader such as `head` has closed the pipe.
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') return 0
    throw error
  }
}
