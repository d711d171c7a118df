import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { DuckDBConnection } from '@duckdb/node-api'
import { CATALOGUE_DATASET } from '../src/lake/lake-dataset.ts'
import { LakeSink } from '../src/lake/lake-sink.ts'
import { LocalLakeStore } from '../src/lake/local-store.ts'
import { CatalogueHistory, toMessages } from './catalogue-event-factory.ts'
import { createModels, readChecks, readModels, selectPlain } from './dbt-models.ts'
import { accountOf, eventsOf, movesOf, placedAt, productId } from './invoice-orders.ts'
import { type Invoice, invoiceFiles } from './invoices.ts'
import { makeLakeDirectory, NEVER, startSink } from './lake-harness.ts'
import { openPlainFiles } from './plain-files.ts'
import { silent } from './stream-harness.ts'

const PROJECT = fileURLToPath(new URL('../examples/analytics', import.meta.url))
const models = readModels(PROJECT)
const marts = models.filter(({ folder }) => folder.endsWith('marts')).map(({ name }) => name)

/** Computed from the invoices, without the lake and without SQL. */
type Expected = Record<string, { select: string; rows: (invoices: readonly Invoice[]) => unknown[][] }>

const pence = ({ lines }: Invoice) => lines.reduce((sum, { quantity, unitAmount }) => sum + quantity * unitAmount, 0)
const major = (amount: number) => (amount / 100).toFixed(3)
const lastStatus = (invoice: Invoice) => movesOf(invoice).at(-1)?.status
const bringsRevenue = (invoice: Invoice) => !['cancelled', 'returned'].includes(lastStatus(invoice) ?? '')
/** The orders that bring revenue, of each customer in turn. */
const turns = (invoices: readonly Invoice[]) =>
  Map.groupBy(
    invoices.filter(bringsRevenue).toSorted((a, b) => `${a.day} ${a.time}`.localeCompare(`${b.day} ${b.time}`)),
    accountOf,
  )
const dayNumber = (day: string) => Date.parse(day) / 86_400_000
/** Number of the week, which begins on Monday; 1970-01-05 was one. */
const week = (day: string) => Math.floor((dayNumber(day) - 4) / 7)
const mondayOf = (number: number) => new Date((number * 7 + 4) * 86_400_000).toISOString().slice(0, 10)
const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)
/** Interpolates between the two nearest numbers, as spreadsheets do. */
function quantile(numbers: readonly number[], part: number): number | null {
  const sorted = numbers.toSorted((a, b) => a - b)
  const place = part * (sorted.length - 1)
  const [low, high] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]]
  return low === undefined || high === undefined ? null : low + (high - low) * (place % 1)
}
/** The answer with the expected number in place of one that differs in its last digits, as sums of fractions do. */
function withExpectedFractions(answer: readonly unknown[][], expected: readonly unknown[][]): unknown[][] {
  const choose = (value: unknown, other: unknown) =>
    typeof value === 'number' && typeof other === 'number' && Math.abs(value - other) <= 1e-9 * Math.abs(other) ? other : value
  return answer.map((row, index) => row.map((value, column) => choose(value, expected[index]?.[column])))
}
const byKey = <T>(groups: Map<string, T>) => [...groups].toSorted(([a], [b]) => (a < b ? -1 : 1))

const EXPECTED: Expected = {
  revenue_by_day: {
    select: 'select day, currency, orders, customers, revenue from models.revenue_by_day order by day',
    rows: (invoices) =>
      byKey(Map.groupBy(invoices.filter(bringsRevenue), ({ day }) => day)).map(([day, placed]) => {
        return [day, 'GBP', placed.length, new Set(placed.map(accountOf)).size, major(sum(placed.map(pence)))]
      }),
  },
  cohorts: {
    select: `select cohort, weeks_later, currency, cohort_customers, customers, orders, revenue from models.cohorts order by cohort, weeks_later`,
    rows(invoices) {
      const customers = [...turns(invoices).values()]
      const weekOf = (placed: readonly Invoice[]) => week(placed[0]?.day ?? '')
      return [...new Set(customers.map(weekOf))]
        .toSorted((a, b) => a - b)
        .flatMap((cohort) => {
          const members = customers.filter((placed) => weekOf(placed) === cohort)
          return Array.from({ length: 60 }, (_, later) => {
            const then = members
              .map((placed) => placed.filter(({ day }) => week(day) === cohort + later))
              .filter(({ length }) => length > 0)
            const orders = then.flat()
            const row = [mondayOf(cohort), later, 'GBP', members.length, then.length, orders.length, major(sum(orders.map(pence)))]
            return orders.length === 0 ? [] : [row]
          }).flat()
        })
    },
  },
  repeat_customers: {
    select: 'select orders, customers, customers_at_least, days_since_previous from models.repeat_customers order by orders',
    rows(invoices) {
      const customers = [...turns(invoices).values()]
      const most = Math.max(...customers.map(({ length }) => length))
      return Array.from({ length: most }, (_, index) => {
        const reached = customers.filter(({ length }) => length > index)
        const days = reached.flatMap((placed) =>
          index === 0 ? [] : [dayNumber(placed[index]?.day ?? '') - dayNumber(placed[index - 1]?.day ?? '')],
        )
        return [index + 1, reached.filter(({ length }) => length === index + 1).length, reached.length, quantile(days, 0.5)]
      })
    },
  },
  stock_outs: {
    select: `select sku, epoch_ms(out_at), epoch_ms(back_at), epoch_ms(archived_at), currency, days_out, units_per_day, units_missed, revenue_missed from models.stock_outs order by sku, out_at`,
    rows(invoices) {
      const newest = Math.max(...invoices.map((invoice) => placedAt(invoice).getTime()))
      return stockOutsOf(invoices).flatMap(({ sku, outAt, backAt, archivedAt }) => {
        const lines = invoices.filter(bringsRevenue).flatMap((invoice) => {
          const at = placedAt(invoice).getTime()
          return at < outAt && at >= outAt - 28 * DAY_MS ? invoice.lines.filter((line) => line.sku === sku) : []
        })
        const [line] = lines
        if (line === undefined) return []
        const days = ((backAt ?? archivedAt ?? newest) - outAt) / DAY_MS
        const perDay = sum(lines.map(({ quantity }) => quantity)) / 28
        return [[sku, outAt, backAt, archivedAt, 'GBP', days, perDay, perDay * days, (perDay * days * line.unitAmount) / 100]]
      })
    },
  },
  time_to_ship: {
    select: 'select day, orders, shipped, median_hours, hours_of_90_percent from models.time_to_ship order by day',
    rows: (invoices) =>
      byKey(
        Map.groupBy(
          invoices.filter((invoice) => lastStatus(invoice) !== 'cancelled'),
          ({ day }) => day,
        ),
      ).map(([day, placed]) => {
        const hours = placed.flatMap((invoice) => movesOf(invoice).filter(({ status }) => status === 'shipped')).map((move) => move.hours)
        return [day, placed.length, hours.length, quantile(hours, 0.5), quantile(hours, 0.9)]
      }),
  },
}

const DAY_MS = 86_400_000

interface StockOut {
  sku: string
  outAt: number
  backAt: number | null
  archivedAt: number | null
}

/**
 * Every fifth product is out of stock from three hours after an order of it. A third is back after four days and a
 * half, a third is archived after a day, restored two days later, and back then, and a third is neither.
 */
function stockOutsOf(invoices: readonly Invoice[]): StockOut[] {
  const sold = Map.groupBy(
    invoices.flatMap((invoice) => invoice.lines.map(({ sku }) => ({ sku, at: placedAt(invoice).getTime() }))),
    ({ sku }) => sku,
  )
  return byKey(sold)
    .filter((_, index) => index % 5 === 0)
    .flatMap(([sku, lines], index): StockOut[] => {
      const outAt = Math.max(...lines.map(({ at }) => at).slice(0, 3)) + 3 * 3_600_000
      const backAt = outAt + 4.5 * DAY_MS
      if (index % 3 === 0) return [{ sku, outAt, backAt, archivedAt: null }]
      if (index % 3 === 1) return [{ sku, outAt, backAt: null, archivedAt: null }]
      return [
        { sku, outAt, backAt: null, archivedAt: outAt + DAY_MS },
        { sku, outAt: outAt + 3 * DAY_MS, backAt, archivedAt: null },
      ]
    })
}

/** Stock events of each product, and product events of those that are archived meanwhile. */
function historiesOf(stockOuts: readonly StockOut[]): CatalogueHistory[] {
  return [...Map.groupBy(stockOuts, ({ sku }) => sku)].map(([sku, outs]) => {
    const time = (at: number) => new Date(at).toISOString()
    const history = new CatalogueHistory({ id: productId(sku), sku }).stock(time(outs[0]?.outAt ?? 0), 0, 1)
    for (const { backAt } of outs) if (backAt !== null) history.stock(time(backAt), 7, 0)
    const [{ archivedAt = null } = {}, restored] = outs
    if (archivedAt === null || restored === undefined) return history
    const archived = time(archivedAt)
    history.change('created', time(archivedAt - 400 * DAY_MS)).change('archived', archived, { archived_at: archived })
    return history.change('restored', time(restored.outAt), { archived_at: null }).change('updated', time(restored.outAt + 1))
  })
}

/** The lake of these orders, as DuckDB has its plain files. */
async function openModels(t: TestContext, invoices: readonly Invoice[]): Promise<DuckDBConnection> {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory, { flushRows: 500 })
  const messages = eventsOf(invoices).map((event, index) => ({ sequence: index + 1, event }))
  await sink.handle(messages, NEVER)
  await sink.flush()
  const catalogue = new LakeSink({
    ...{ store: new LocalLakeStore(directory), dataset: CATALOGUE_DATASET, flushSeconds: 3_600, flushRows: 10_000, logger: silent },
  })
  await catalogue.start()
  const histories = historiesOf(stockOutsOf(invoices))
  await catalogue.handle(toMessages(histories.flatMap(({ events }) => events)), NEVER)
  await catalogue.stop()
  const connection = await openPlainFiles(t, directory)
  await createModels(connection, models)
  return connection
}

for (const { name, invoices } of invoiceFiles())
  test(`each model of examples/analytics answers what the invoices of ${name} say`, async (t) => {
    const connection = await openModels(t, invoices)
    assert.deepEqual(marts.toSorted(), Object.keys(EXPECTED).toSorted(), 'every model has figures to compare')
    for (const [mart, { select, rows }] of Object.entries(EXPECTED)) {
      const expected = rows(invoices)
      assert.ok(expected.length > 0)
      assert.deepEqual(withExpectedFractions(await selectPlain(connection, select), expected), expected, mart)
    }
    for (const { title, select } of readChecks(PROJECT)) assert.deepEqual(await selectPlain(connection, select), [], title)
  })
