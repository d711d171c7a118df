import { createReadStream, type ReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setFlagsFromString } from 'node:v8'
import { minorDigits } from '../../client/src/currency.ts'
import { auditContextOfCommand } from '../activity/record-activity.ts'
import { orderSlotOf } from '../app/prepare-database.ts'
import { Passwords } from '../auth/passwords/password.ts'
import { exportCatalogue } from '../catalogue/import/export-catalogue.ts'
import { importCatalogue } from '../catalogue/import/import-catalogue.ts'
import { type ImportFormat, readImportLines } from '../catalogue/import/import-lines.ts'
import { OperatorError } from '../errors.ts'
import { Conversion } from '../move-in/convert/conversion.ts'
import { type ConvertOptions, findConverter } from '../move-in/convert/convert.ts'
import { importCustomers } from '../move-in/import-customers.ts'
import { importOrders, untilPublished } from '../move-in/import-orders.ts'
import { importProducts } from '../move-in/import-products.ts'
import { readJsonLines } from '../move-in/json-lines.ts'
import type { MoveInOptions, MoveInResult } from '../move-in/move-in.ts'
import { compareTallies, UNREADABLE } from '../move-in/tally.ts'
import type { Contexts, Terminal } from './command.ts'
import { formatTable } from './format-table.ts'
import { createProgress } from './progress.ts'

interface ImportValues {
  source: string
  isDryRun: boolean
  json: boolean
}

/** Status 0 only when the store has every customer of the file. */
export async function moveCustomersIn(
  { pool, terminal }: Contexts['database'],
  file: string,
  values: ImportValues & { dropsUnusableHashes: boolean },
): Promise<number> {
  const passwords = new Passwords({ threads: 1, maxWaiting: 1 })
  return report(terminal, 'customers', values, file, (options) =>
    importCustomers(pool, readJsonLines(openFile(file)), {
      ...options,
      dropsUnusableHashes: values.dropsUnusableHashes,
      unmatchableHash: () => passwords.unmatchable(),
    }),
  )
}

/** Status 0 only when the store has every order of the file, and the sums are equal. */
export async function moveOrdersIn(
  { pool, addresses, terminal }: Contexts['database'],
  file: string,
  values: ImportValues,
): Promise<number> {
  const slotName = orderSlotOf(addresses.stream)
  return report(terminal, 'orders', values, file, (options) =>
    importOrders(pool, () => readJsonLines(openFile(file)), {
      ...options,
      untilPublished: (position) => untilPublished(pool, slotName, position),
    }),
  )
}

/** Status 0 only when the store has every product of the file, and the sums of the prices are equal. */
export async function proveProducts(
  { pool, config, terminal }: Contexts['database'],
  file: string,
  { format, encoding, ...values }: Omit<ImportValues, 'source'> & { format: ImportFormat | undefined; encoding: string | undefined },
): Promise<number> {
  return report(terminal, 'products', { ...values, source: 'products' }, file, (options) =>
    importProducts(pool, readImportLines(openFile(file), { format, fileName: file, currency: config.currency, encoding }), options),
  )
}

async function report(
  terminal: Terminal,
  what: string,
  { source, isDryRun, json }: ImportValues,
  file: string,
  run: (options: MoveInOptions) => Promise<MoveInResult & { updated?: number; present?: number }>,
): Promise<number> {
  if (!(await stat(file)).isFile())
    throw new OperatorError(`${file} is not a file on disk: save the lines to one, because an import may read it again`)
  const progress = createProgress()
  progress.show(`Reading ${file}`)
  const onProblem = (line: number, reason: string) => {
    progress.clear()
    terminal.err(`line ${line}: ${reason}`)
  }
  const onProgress = (lines: number) => progress.show(`Imported ${lines.toLocaleString('en')} lines`)
  const result = await run({ source, isDryRun, now: () => new Date(), onProblem, onProgress }).finally(progress.end)
  const groups = isDryRun ? [] : compareTallies(result.source, result.store)
  const { outcomes, updated = 0, present = 0 } = result
  const isEqual = groups.every((group) => group.isEqual) && outcomes.refused === 0 && outcomes.changed === 0
  if (json) {
    const shown = groups.map(({ source: there, store: here, ...group }) => ({ ...group, source: toJson(there), store: toJson(here) }))
    terminal.out(JSON.stringify({ ...outcomes, updated, dry_run: isDryRun, groups: shown, equal: isEqual }))
    return isEqual ? 0 : 1
  }
  const named = Object.entries({ ...outcomes, updated, present }).filter(
    ([name, count]) => count > 0 || name === 'created' || name === 'refused',
  )
  terminal.out(`${isDryRun ? 'dry run: ' : ''}${named.map(([name, count]) => `${count} ${name}`).join(', ')}`)
  // Unreadable lines were already printed with their reasons.
  const readable = groups.filter(({ group }) => group !== UNREADABLE)
  if (readable.length > 0) terminal.out(formatTable({ columns: COLUMNS, rows: readable.map(toRow) }))
  for (const { group } of readable.filter((one) => !one.isEqual)) terminal.err(`${group}: the file and the store differ`)
  if (isEqual) terminal.out(isDryRun ? `every line can be imported` : `the file and the store have the same ${what}`)
  return isEqual ? 0 : 1
}

const COLUMNS = ['', 'in the file', 'sum', 'in the store', 'sum', '']

function toRow({ group, source, store, isEqual }: ReturnType<typeof compareTallies>[number]) {
  const currency = /^[A-Z]{3}\b/.exec(group)?.[0] ?? null
  const amountOf = ({ amount }: { amount: bigint }) => (currency === null ? '' : toMajorUnits(amount, currency))
  return [group, source.count, amountOf(source), store.count, amountOf(store), isEqual ? 'equal' : 'DIFFERENT']
}

function toJson({ count, amount }: { count: number; amount: bigint }) {
  return { count, amount: Number(amount) }
}

function toMajorUnits(amount: bigint, currency: string): string {
  const digits = minorDigits(currency)
  const text = String(amount).padStart(digits + 1, '0')
  return digits === 0 ? text : `${text.slice(0, -digits)}.${text.slice(-digits)}`
}

export async function importFile(
  { pool, config, terminal }: Contexts['database'],
  file: string,
  { format, encoding }: { format: ImportFormat | undefined; encoding: string | undefined },
): Promise<number> {
  // V8 collects many short-lived lines too late. These flags save a hundred megabytes in a long import.
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
  // An error of reading does not name the file.
  return createReadStream(file).on('error', (error: NodeJS.ErrnoException) => {
    error.path ??= file
  })
}

/** Writes the form that the import reads. */
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

/** Status 1 when a record was refused. */
export async function convertFile(
  { err }: Terminal,
  [shop, what, file]: readonly [shop: string, what: string, file: string],
  options: Omit<ConvertOptions, 'now'>,
): Promise<number> {
  const conversion = new Conversion(err)
  const lines = findConverter(shop, what)(file, conversion, { ...options, now: new Date() })
  await pipeline(Readable.from(lines), process.stdout, { end: false })
  const { refused, leftOut } = conversion
  if (refused > 0) err(`${refused} refused`)
  if (leftOut > 0) err(`${leftOut} left out, because the other shop does not sell them`)
  return refused === 0 ? 0 : 1
}
