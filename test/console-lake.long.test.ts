import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { parse } from 'csv-parse/sync'
import type { Locator, Page } from 'playwright-core'
import { LocalLakeStore } from '../src/lake/local-store.ts'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, HOSTILE, NARROW, openConsole } from './console-harness.ts'
import { NEVER, startSinkOn } from './lake-harness.ts'
import { makeOrderEvent } from './order-event-factory.ts'
import type { TestStore } from './store.ts'

/** Orders on three days, of which one has a hostile reference. */
async function fillLake(t: Parameters<typeof startSinkOn>[0], store: TestStore): Promise<void> {
  const sink = await startSinkOn(t, new LocalLakeStore(join(store.config.dataDir, 'lake')))
  const messages = [1, 2, 3].map((day) => ({
    sequence: day,
    event: makeOrderEvent({
      order: {
        ...{ version: 1, created_at: `2026-03-0${day}T12:00:00.000Z`, updated_at: `2026-03-0${day}T12:00:00.000Z` },
        ...{ client_reference: day === 1 ? HOSTILE : '=1+1', total: { amount: 1_000 * day, currency: day === 3 ? 'JPY' : 'EUR' } },
      },
    }),
  }))
  await sink.handle(messages, NEVER)
  await sink.flush()
  await sink.stop()
}

const cells = (page: Page) =>
  page
    .getByRole('region', { name: 'Result', exact: true })
    .locator('tbody tr')
    .evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)))
const unfoldSql = (page: Page) => page.getByText('Ask in SQL', { exact: true }).press('Enter')
const ask = async (page: Page, sql: string) => {
  await page.getByLabel('SQL (DuckDB, one SELECT)').fill(sql)
  await page.getByLabel('SQL (DuckDB, one SELECT)').press('Control+Enter')
}

/** When a busy machine did not answer within the bound, or has not ended the process of a cancelled query yet. */
const ASK_AGAIN = /took longer than 10 seconds|Your last query still runs/

/** Asks again after `ASK_AGAIN`. */
async function untilAnswered(page: Page, askOnce: () => Promise<unknown>, answer?: Locator): Promise<void> {
  const rows = answer ?? page.getByText(/^\d+ rows? in /)
  do {
    await askOnce()
    await rows.or(page.getByText(ASK_AGAIN)).waitFor()
    await page.getByRole('button', { name: 'Cancel', exact: true }).waitFor({ state: 'detached' })
  } while (!(await rows.isVisible()))
}

test('an operator asks the lake, sees a plot and takes the rows away', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, show } = await openConsole(t, NARROW, { prepare: (store) => fillLake(t, store) })
  await show('Lake')
  await assertUsable(page, 'before a question')
  await unfoldSql(page)
  await page.getByText('A row for each change of an order.').waitFor()
  await assertUsable(page, 'before a query')
  await page.getByLabel('Orders of').selectOption('All time')
  await page.getByRole('button', { name: 'Revenue per day', pressed: true }).waitFor()
  await page.getByRole('button', { name: 'Cancel', exact: true }).waitFor({ state: 'detached' })
  for (const question of ['Best sellers', 'Cancel rate', 'Time to ship', 'Repeat customers', 'Revenue per day']) {
    await untilAnswered(page, () => page.getByRole('button', { name: question }).click())
  }
  assert.deepEqual(await cells(page), [
    ['2026-03-01', 'EUR', '1', '€10.00'],
    ['2026-03-02', 'EUR', '1', '€20.00'],
    ['2026-03-03', 'JPY', '1', '¥3,000'],
  ])
  assert.equal(await page.getByLabel('Plot of').inputValue(), '3', 'the revenue, not the number of orders')
  await page.locator('canvas').waitFor()
  await page.getByText('As a table').first().click()
  const plotted = page.getByRole('region', { name: 'revenue over time, as a table' })
  await plotted.waitFor()
  assert.deepEqual(await plotted.getByRole('columnheader').allTextContents(), ['Time', 'EUR', 'JPY'])
  assert.deepEqual(await plotted.locator('tbody tr td:not(:first-child)').allTextContents(), ['–', '3,000', '20', '–', '10', '–'])
  await assertUsable(page, 'with a plot')
  // A link to a question answers it: of 90 days without a period in it.
  await untilAnswered(page, () => page.reload())
  assert.equal((await cells(page)).length, 3)
  await untilAnswered(
    page,
    () =>
      page
        .getByLabel('Orders of')
        .selectOption('7 days')
        .then(() => {}),
    page.getByText('0 rows in'),
  )

  await unfoldSql(page)
  await untilAnswered(
    page,
    () => ask(page, 'select client_reference, total_amount - 3000 as amount from orders order by created_at'),
    page.getByRole('cell', { name: HOSTILE, exact: true }),
  )
  assert.equal(await page.locator('.bars li').count(), 3, 'categories have bars')
  assert.notEqual(await page.title(), 'taken')
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download CSV' }).click()])
  assert.deepEqual(parse(readFileSync(await file.path())), [
    ['client_reference', 'amount'],
    [HOSTILE, '-2000'],
    ["'=1+1", '-1000'],
    ["'=1+1", '0'],
  ])

  await untilAnswered(
    page,
    () => ask(page, 'select range, null as none from range(5000)'),
    page.getByText('truncated: there are more rows'),
  )
  await page.getByText('The table shows the first 500; CSV has all 1,000.').waitFor()
  await page.reload()
  await page.getByText('A row for each change of an order.').waitFor()
  assert.equal(await page.getByLabel('SQL (DuckDB, one SELECT)').inputValue(), 'select range, null as none from range(5000)')
  assert.equal(await page.locator('.result').count(), 0, 'an address runs nothing')
  // The browser itself reports an answer with 422, and with 429 when the query before had not ended.
  assert.deepEqual(
    complaints.filter((line) => !/status of 4(22|29)/.test(line)),
    [],
  )
})

test('a query that is refused, cancelled or hostile leaves the screen usable', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, show } = await openConsole(t, NARROW, { prepare: (store) => fillLake(t, store) })
  await show('Lake')
  await unfoldSql(page)
  await untilAnswered(
    page,
    () => ask(page, `select '${HOSTILE.replaceAll("'", "''")}'::integer`),
    page.getByRole('alert').getByText(/^Conversion Error: /),
  )
  await assertUsable(page, 'refused')
  await untilAnswered(page, () => ask(page, "select * from read_text('/etc/passwd')"), page.getByText('read_text is refused'))
  await ask(page, 'select count(*) from range(1000000000000::bigint)')
  await page.getByText(/^Running for \d/).waitFor()
  // Another question waits until this one has ended or is cancelled, and its button keeps the focus.
  await page.getByRole('button', { name: 'Best sellers' }).press('Enter')
  assert.equal(await page.evaluate('document.activeElement.textContent'), 'Best sellers')
  assert.match(await page.getByLabel('SQL (DuckDB, one SELECT)').inputValue(), /1000000000000/)
  await page.getByRole('button', { name: 'Cancel', exact: true }).click()
  await page.getByText('The query was cancelled.').waitFor()
  // Until then the screen takes no other query.
  await page.getByRole('button', { name: 'Cancel', exact: true }).waitFor({ state: 'detached' })
  const long = 'x'.repeat(2_000)
  const hostile = `select '${HOSTILE.replaceAll("'", "''")}' as "${HOSTILE.replaceAll('"', '""')}", '${long}' as long, 1 as n union all select 'b', 'c', -2`
  await untilAnswered(page, () => ask(page, hostile), page.getByRole('columnheader', { name: HOSTILE, exact: true }))
  await assertUsable(page, 'hostile')
  assert.notEqual(await page.title(), 'taken')
  // The browser itself reports answers with 422, and with 429 when the cancelled query had not ended.
  assert.deepEqual(
    complaints.filter((line) => !/status of 4(22|29)/.test(line)),
    [],
  )
})
