import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startStore } from '../../test/store.ts'

const store = await startStore({ after })

async function add(name: string, group: string | null, options: Record<string, string>, amount: number, stock = 1) {
  const { id } = await store.addProduct({ name, amount, stock })
  await store.pool.query('update products set variant_group = $2, options = $3 where id = $1', [id, group, options])
  return id
}
await add('Shirt red M', 'shirt', { size: 'M', colour: 'red' }, 2_000)
await add('Shirt red L', 'shirt', { size: 'L', colour: 'red' }, 2_500, 0)
await add('Shirt blue M', 'shirt', { size: 'M', colour: 'blue' }, 1_500)
await add('Hat S', 'hat', { size: 'S' }, 900, 0)
await add('Hat M', 'hat', { size: 'M' }, 950, 0)
await add('Umbrella', null, {}, 1_800)

const list = async (query: string) => (await store.call('GET', `/products?${query}`)).json.data as Record<string, never>[]
const names = async (query: string) => (await list(query)).map(({ name }) => name)

test('lists the variants of a group with their options', async () => {
  const shirts = await list('group=shirt&sort=price')
  assert.deepEqual(
    shirts.map(({ name, group, options }) => [name, group, options]),
    [
      ['Shirt blue M', 'shirt', { size: 'M', colour: 'blue' }],
      ['Shirt red M', 'shirt', { size: 'M', colour: 'red' }],
      ['Shirt red L', 'shirt', { size: 'L', colour: 'red' }],
    ],
  )
})

test('lists each group once, at the place of its first variant, with a summary of the group', async () => {
  const listed = await list('collapse=group&sort=price')
  assert.deepEqual(
    listed.map(({ name, variants }) => [name, variants]),
    [
      ['Hat S', { count: 2, options: { size: ['M', 'S'] }, prices: [{ currency: 'EUR', min: 900, max: 950 }], in_stock: false }],
      [
        'Shirt blue M',
        {
          count: 3,
          options: { colour: ['blue', 'red'], size: ['L', 'M'] },
          prices: [{ currency: 'EUR', min: 1_500, max: 2_500 }],
          in_stock: true,
        },
      ],
      ['Umbrella', undefined],
    ],
  )
  assert.deepEqual(await names('collapse=group&sort=-price'), ['Shirt red L', 'Umbrella', 'Hat M'])
})

test('groups only the products that match the filters and the search', async () => {
  assert.deepEqual(await names('collapse=group&sort=price&min_price=1600'), ['Umbrella', 'Shirt red M'])
  assert.deepEqual(await names('collapse=group&sort=price&in_stock=true'), ['Shirt blue M', 'Umbrella'])
  assert.deepEqual(await names('collapse=group&q=red&sort=-price'), ['Shirt red L'])
  assert.deepEqual(await names('collapse=group&q=m&sort=price'), ['Hat M', 'Shirt blue M'])
})

test('pages of groups list no group twice', async () => {
  for (const sort of ['name', 'price', '-created_at']) {
    const seen: string[] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const { json } = await store.call('GET', `/products?collapse=group&limit=1&sort=${sort}${cursor === '' ? '' : `&cursor=${cursor}`}`)
      seen.push(...json.data.map(({ name }: { name: string }) => name))
      cursor = json.next_cursor
    }
    assert.equal(seen.length, 3, sort)
  }
})

test('counts the entries of a list of groups', async () => {
  const count = async (query: string) => (await store.call('GET', `/products?limit=1&include=count&${query}`)).json.count
  assert.deepEqual(await count('collapse=group'), { value: 3, exact: true })
  assert.deepEqual(await count('collapse=group&q=m'), { value: 2, exact: true })
  assert.deepEqual(await count('sort=price'), { value: 6, exact: true })
})

test("a group whose name equals a product's id is a separate entry", async () => {
  const lone = await add('Candle', null, {}, 100)
  await add('Candle holder', lone, { size: 'S' }, 200)
  for (const sort of ['price', 'relevance']) {
    assert.deepEqual((await names(`collapse=group&sort=${sort}&q=candle`)).sort(), ['Candle', 'Candle holder'], sort)
  }
  assert.equal((await store.call('GET', '/products?q=candle&collapse=group&include=count')).json.count.value, 2)
})
