import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Budget, findAbove, lower, measure, readBudget } from './budget.ts'

const budget: Budget = { characters: { 'src/mail': 1_000 }, places: { 'a list': 2 }, turns: { 'by now': 3 }, rises: [] }

test('the program keeps its budget', () => {
  const allowed = readBudget()
  const above = findAbove(measure(), allowed)
  assert.deepEqual(
    above,
    [],
    'make it smaller, or add to `rises` of checks/budget.json { "of": the name, "by": the number, "gives": what a user of the store gets for it }',
  )
  for (const { of, gives } of allowed.rises) assert.ok(gives.split(' ').length >= 4, `the rise of ${of} says what a user gets for it`)
})

test('finds a size above its budget, unless a line allows it', () => {
  const grown = { characters: { 'src/mail': 1_100, 'src/parcels': 5 }, places: { 'a list': 3 }, turns: { 'by now': 4 } }
  assert.deepEqual(
    findAbove(grown, budget).map((line) => line.split(':')[0]),
    ['src/mail', 'src/parcels', 'a list', 'by now'],
  )
  const gives = 'mails in a fifth language'
  assert.deepEqual(
    findAbove(grown, {
      ...budget,
      rises: Object.entries({ 'src/mail': 100, 'src/parcels': 5, 'a list': 1, 'by now': 1 }).map(([of, by]) => ({ of, by, gives })),
    }),
    [],
  )
  assert.deepEqual(findAbove({ ...grown, characters: { 'src/mail': 1_009 }, places: {}, turns: {} }, budget), [], 'a mend needs no line')
})

test('a size that has fallen becomes the budget, and one above the budget does not', () => {
  const sizes = { characters: { 'src/mail': 900 }, places: { 'a list': 5 }, turns: { 'by now': 0 } }
  const lowered = lower(sizes, budget)
  assert.deepEqual(lowered, { characters: { 'src/mail': 900 }, places: { 'a list': 2 }, turns: { 'by now': 0 }, rises: [] })
  const grown = { characters: { 'src/mail': 900, 'src/parcels': 5 }, places: { 'a list': 2 }, turns: { 'by now': 1 } }
  assert.deepEqual(
    lower(grown, lowered),
    { ...lowered, characters: { 'src/mail': 900, 'src/parcels': 0 } },
    'what has disappeared stays so, and a new room needs a line',
  )
})

test('everything that is counted exists: each room has characters, and each recipe names places', () => {
  const { characters, places, turns } = measure()
  for (const room of ['src/orders', 'src/catalogue', 'client', 'migrations', 'tests']) assert.ok((characters[room] ?? 0) > 10_000, room)
  for (const [kind, number] of Object.entries(places)) assert.ok(number >= 1, kind)
  assert.ok(Object.values(turns).length > 0)
})
