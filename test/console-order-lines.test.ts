import assert from 'node:assert/strict'
import { test } from 'node:test'
import { packedLines } from '../console/screens/packed-lines.ts'
import { fillTable } from '../console/screens/parcel-table.ts'

const parcels = () => ['1001', '1002'].map((number) => ({ number, carrier: '', parcel: '', url: '' }))

test('a file whose titles name no parcel number fills nothing, and says which titles it has', () => {
  const table = parcels()
  const cells = [
    ['Order', 'Customer', 'Weight of the parcel'],
    ['1001', 'Ada', '2.5'],
    ['1002', 'Bob', '3.5'],
  ]
  const text = fillTable(table, cells, { row: 0, field: 'parcel' })
  assert.equal(text, 'No column is named as a parcel number: Order, Customer, Weight of the parcel.')
  assert.deepEqual(table, parcels())
})

test('finds the parcel number below the titles that carriers give it', () => {
  for (const title of ['Shipment ID', 'Consignment', 'Barcode', 'Label number', 'Tracking number']) {
    const table = parcels()
    const cells = [
      ['Shipment date', 'Order', title],
      ['2026-11-28', '1001', 'A1'],
      ['2026-11-28', '1002', 'A2'],
    ]
    assert.equal(fillTable(table, cells, { row: 0, field: 'parcel' }), '2 lines were taken.')
    assert.deepEqual(
      table.map(({ parcel }) => parcel),
      ['A1', 'A2'],
      title,
    )
  }
})

test('counts and names lines with a second number for an order, and a first line that is no header', () => {
  const table = parcels()
  const cells = [
    ['999', 'A9'],
    ['1001', 'A1'],
    ['1001', 'A2'],
    ['1002', 'B1'],
    ['1002', 'B1'],
  ]
  assert.equal(
    fillTable(table, cells, { row: 0, field: 'parcel' }),
    '3 lines were taken. 1 line names no order of this table: 999. 1 more line has a second number of an order: 1001.',
  )
  assert.deepEqual(
    table.map(({ parcel }) => parcel),
    ['A1', 'B1'],
  )
})

test('a slip lists what is left to ship, and all that was not cancelled once nothing is left', () => {
  const unitsOf = (...items: { quantity: number; shipped?: number; cancelled?: number }[]) =>
    packedLines({ items }).map(({ units }) => units)
  assert.deepEqual(unitsOf({ quantity: 5, shipped: 2, cancelled: 1 }, { quantity: 1, shipped: 1 }), [2])
  assert.deepEqual(unitsOf({ quantity: 5, shipped: 4, cancelled: 1 }, { quantity: 1, cancelled: 1 }), [4])
})
