import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { eventually } from '../../../test/eventually.ts'
import { feedParts, MAX_PART_BYTES, renderPart } from './feed-parts.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')
const BATCH = 100

/** `total` products of `length` characters, by id. */
const read = (total: number, length: number, afterId: string) =>
  Array.from({ length: Math.min(BATCH, total - Number(afterId)) }, (_, index) => ({ id: String(Number(afterId) + index + 1), length }))
const render = ({ id, length }: { id: string; length: number }) => `${id.padEnd(length - 1)}\n`
const start = (total: number, length: number, onRead: (products: object[]) => void = () => {}) => {
  const part = (afterId: string) => {
    const products = read(total, length, afterId)
    onRead(products)
    return renderPart(products, render)
  }
  return feedParts(part('0'), async (id) => part(id))
}

test('a part ends with the product that reaches the size limit, and no product is left out or repeated', async () => {
  for (const [total, length, parts] of [
    [0, 10, 1],
    [1, 10, 1],
    [100, 10, 2],
    [250, 10, 3],
    [250, 100_000, 23],
    [100, MAX_PART_BYTES / 100, 2],
    [3, MAX_PART_BYTES, 4],
    [2, 3 * MAX_PART_BYTES, 2],
  ] as const) {
    const bytes = await Array.fromAsync(start(total, length))
    const ids = Buffer.concat(bytes).toString().split('\n').slice(0, -1)
    assert.deepEqual(
      ids.map(Number),
      Array.from({ length: total }, (_, index) => index + 1),
    )
    assert.ok(bytes.every((part) => part.length < MAX_PART_BYTES + length))
    assert.ok(Math.abs(bytes.length - parts) <= 1, `${bytes.length} parts of ${total} products of ${length}`)
  }
})

test('keeps neither products nor earlier parts in memory while a client takes a part', async () => {
  const seen: WeakRef<object>[] = []
  const parts = start(300, 100, (products) => seen.push(...products.map((product) => new WeakRef(product))))
  const sent: WeakRef<object>[] = []
  const take = async () => sent.push(new WeakRef((await parts.next()).value as Buffer))
  await take()
  await take()
  assert.equal(seen.length, 200)
  await eventually(
    async () => {
      collectGarbage()
      return seen.every((product) => product.deref() === undefined) && sent[0]?.deref() === undefined
    },
    { what: 'the products are collected' },
  )
  await parts.return(undefined)
})
