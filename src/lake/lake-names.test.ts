import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DATASET_NAMES, nameOf, parseName, splitSuperseded } from './lake-names.ts'

const file = (first: number, last: number, level = 0, ingestDate = '2026-03-01') => ({ name: nameOf({ ingestDate, first, last, level }) })

test('names a file by its date, its range and, when it stands for others, its level', () => {
  assert.equal(file(1, 20).name, 'orders/ingest_date=2026-03-01/0000000000000001-0000000000000020.parquet')
  assert.equal(file(1, 20, 3).name, 'orders/ingest_date=2026-03-01/0000000000000001-0000000000000020.3.parquet')
  for (const level of [0, 12]) {
    for (const dataset of DATASET_NAMES) {
      const range = {
        dataset,
        folder: `${dataset}/ingest_date=2026-03-01`,
        ingestDate: '2026-03-01',
        first: 7,
        last: Number.MAX_SAFE_INTEGER,
        level,
      }
      assert.deepEqual(parseName(nameOf(range)), range)
    }
  }
  for (const name of ['orders/x.parquet', '.pending/after-0000000000000001.parquet', `${file(1, 2).name}.corrupt`]) {
    assert.equal(parseName(name), null)
  }
})

test('passes over a file that another one of its folder, of the same or a higher level, covers', () => {
  const covered: [string, ReturnType<typeof file>[], ReturnType<typeof file>[]][] = [
    ['neighbours', [file(1, 10), file(11, 20)], []],
    ['merged', [file(1, 20, 1)], [file(1, 10), file(11, 20)]],
    ['merged twice', [file(1, 30, 2)], [file(1, 20, 1), file(1, 10), file(21, 30)]],
    ['merged by two at once', [file(1, 30, 1)], [file(1, 20, 1), file(11, 30, 1)]],
    ['the same range', [file(1, 20, 2)], [file(1, 20, 1), file(1, 20)]],
    ['of one level', [file(1, 20)], [file(1, 10)]],
    ['refilled into the range of a merged one', [file(1, 30, 1), file(11, 20, 3)], []],
    ['of another date', [file(1, 30, 1), file(11, 20, 0, '2026-03-02')], []],
    ['partly', [file(1, 20, 1), file(15, 30)], []],
    ['far apart', [file(1, 10), file(1_000_000_000_001, 1_000_000_000_009)], []],
  ]
  for (const [title, current, superseded] of covered) {
    const split = splitSuperseded([...superseded, ...current].toReversed())
    assert.deepEqual(split.current.map(({ name }) => name).sort(), current.map(({ name }) => name).sort(), title)
    assert.deepEqual(split.superseded.map(({ name }) => name).sort(), superseded.map(({ name }) => name).sort(), title)
  }
  const [merged, other] = [file(1, 20, 1), { name: 'orders/notes.parquet' }]
  assert.deepEqual(splitSuperseded([other, merged]), { current: [merged], superseded: [] })
})
