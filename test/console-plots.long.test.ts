import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { LocalLakeStore } from '../src/lake/local-store.ts'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, NARROW, openConsole, WIDE, withoutRefusals } from './console-harness.ts'
import { eventually } from './eventually.ts'
import { NEVER, startSinkOn } from './lake-harness.ts'
import { makeOrderEvent } from './order-event-factory.ts'
import type { TestStore } from './store.ts'

async function makeLake(t: Parameters<typeof startSinkOn>[0], { config }: TestStore): Promise<void> {
  const sink = await startSinkOn(t, new LocalLakeStore(join(config.dataDir, 'lake')))
  await sink.handle([{ sequence: 1, event: makeOrderEvent() }], NEVER)
  await sink.flush()
  await sink.stop()
}

/** Runs a query of the lake, again when a busy machine has not answered within the bound. */
async function plot(page: Page, sql: string): Promise<void> {
  const editor = page.getByLabel('SQL (DuckDB, one SELECT)')
  const rows = page.getByText(/^\d+ rows? in /)
  const refusal = page.getByRole('alert').filter({ hasText: /./ })
  for (let attempt = 1; attempt <= 5; attempt++) {
    await editor.fill(sql)
    await editor.press('Control+Enter')
    await page.getByRole('button', { name: 'Cancel', exact: true }).waitFor({ state: 'detached', timeout: 60_000 })
    await rows.or(refusal).waitFor()
    if (await rows.isVisible()) return
  }
  assert.fail(await refusal.innerText())
}

/** The colour in each marker of the legend, and its border. */
const MARKERS = `[...document.querySelectorAll('.u-legend tr:not(:first-child) .u-marker')].map((marker) => {
  const { backgroundColor: fill, borderTopStyle, borderTopColor } = getComputedStyle(marker)
  return { fill, line: borderTopStyle + ' ' + borderTopColor }
})`
const width = (page: Page) => page.locator('.u-over').evaluate((over) => (over as unknown as { clientWidth: number }).clientWidth)
const plotted = (page: Page) => page.getByRole('region', { name: 'value over time, as a table' })
const unfold = (page: Page) => page.getByText('As a table: value over time').press('Enter')

test('a plot tells each line from the others, follows the width and has its figures as a table', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, show } = await openConsole(t, WIDE, {
    ...{ timeZone: 'America/New_York', prepare: (store: TestStore) => makeLake(t, store) },
  })
  await show('Lake')
  await page.getByText('Ask in SQL', { exact: true }).press('Enter')
  // Ten lines over three days, of which one has a gap and one goes below zero.
  await plot(
    page,
    `select strftime(date '2026-03-07' + d::integer, '%Y-%m-%d') as day, 'line ' || c as line,
      case when c = 2 and d = 1 then null when c = 3 then -1.5 * d else c + d / 4 end::decimal(9, 2) as value
    from range(3) as days (d), range(10) as lines (c) order by day, c`,
  )
  const markers = (await page.evaluate(MARKERS)) as { fill: string; line: string }[]
  assert.equal(new Set(markers.map(({ fill, line }) => `${fill} ${line}`)).size, 10, 'no two of ten look alike')
  for (const { fill, line } of markers.slice(0, 8)) assert.equal(`${line}`, `solid ${fill}`)
  await unfold(page)
  await plotted(page).waitFor()
  const rows = await plotted(page)
    .locator('tbody tr')
    .evaluateAll((shown) => shown.map((row) => [...row.children].slice(0, 5).map((cell) => cell.textContent?.replaceAll('\u202f', ' '))))
  // Days begin at midnight of the shop, also after its clocks have changed.
  assert.deepEqual(rows, [
    ['Mar 9, 12:00 AM', '0.5', '1.5', '2.5', '-3'],
    ['Mar 8, 12:00 AM', '0.25', '1.25', '–', '-1.5'],
    ['Mar 7, 12:00 AM', '0', '1', '2', '0'],
  ])
  await assertUsable(page, 'with ten lines')

  const before = await width(page)
  await page.setViewportSize({ width: NARROW.width, height: 900 })
  await eventually(async () => (await width(page)) < before && (await width(page)) <= NARROW.width, { what: 'the narrow plot' })
  assert.deepEqual(withoutRefusals(complaints), [])
})
