import assert from 'node:assert/strict'

export interface Item {
  product_id: string
  unit_price?: { amount: number }
  unit_price_amount?: number
  quantity: number
  shipped?: number
  cancelled?: number
  returned?: number
}

/** What the accepted changes of an order add up to, by product: counted from the requests, not from the history. */
export interface Tally {
  id: string
  placed: number[]
  /** With what amendments have added. */
  ordered: number[]
  charges: number
  /** What was paid, null for nothing. */
  paid: number | null
  refunded: number
  /** Changes without a mail. */
  silent: number
  shipped: number[]
  cancelled: number[]
  returned: number[]
  restocked: number[]
}

/** The lines of an order, of the API or of the lake, as one text. */
export const textOf = (items: readonly Item[]) =>
  items
    .map((item) => [
      ...[item.product_id, item.unit_price?.amount ?? item.unit_price_amount, item.quantity],
      ...[item.shipped ?? 0, item.cancelled ?? 0, item.returned ?? 0],
    ])
    .join(' ')

interface Shown {
  status: unknown
  items: Item[]
  total: { amount: number }
  original_total: { amount: number }
}

/** No more than was paid, whatever two processes refund at once. */
export function assertRefunds(order: { refunded: { amount: number }; refundable: { left: { amount: number } }[] }, tally: Tally): void {
  const { paid, refunded } = tally
  assert.equal(order.refunded.amount, refunded)
  assert.equal(order.refundable[0]?.left.amount ?? 0, (paid ?? 0) - refunded)
  assert.ok(refunded <= (paid ?? 0))
}

export function assertOrder({ status, items, total, original_total }: Shown, tally: Tally, products: string[], prices: number[]): void {
  const sum = (of: (i: number) => number) => [0, 1].reduce((all, i) => all + of(i), 0)
  const [open, held] = [
    sum((i) => (tally.ordered[i] ?? 0) - (tally.shipped[i] ?? 0) - (tally.cancelled[i] ?? 0)),
    sum((i) => (tally.shipped[i] ?? 0) - (tally.returned[i] ?? 0)),
  ]
  for (const item of items) {
    const i = products.indexOf(item.product_id)
    const { shipped = 0, cancelled = 0, returned = 0 } = item
    assert.ok(i !== -1 && shipped + cancelled <= item.quantity && returned <= shipped)
  }
  // A product may have several lines.
  const count = (i: number, of: (item: Item) => number | undefined) =>
    items.reduce((all, item) => all + (item.product_id === products[i] ? (of(item) ?? 0) : 0), 0)
  for (const i of [0, 1])
    assert.deepEqual(
      [
        count(i, (item) => item.quantity),
        count(i, (item) => item.shipped),
        count(i, (item) => item.cancelled),
        count(i, (item) => item.returned),
      ],
      [tally.ordered[i], tally.shipped[i], tally.cancelled[i], tally.returned[i]],
      `${tally.id} ${products[i]}`,
    )
  const shippedAny = tally.shipped.some((count) => count > 0)
  const expected = open > 0 ? ['pending', 'confirmed'] : !shippedAny ? ['cancelled'] : held === 0 ? ['returned'] : ['shipped', 'delivered']
  assert.ok(expected.includes(String(status)), `${status} is none of ${expected}`)
  assert.equal(
    original_total.amount,
    sum((i) => (tally.placed[i] ?? 0) * (prices[i] ?? 0)),
  )
  const kept = tally.charges + sum((i) => ((tally.ordered[i] ?? 0) - (tally.cancelled[i] ?? 0)) * (prices[i] ?? 0))
  // A cancelled order keeps the total that it had before its last lines were cancelled.
  if (status === 'cancelled') assert.ok(total.amount > kept)
  else assert.equal(total.amount, kept)
}
