import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { setStatus } from '../../test/broken-rows.ts'
import { assertProblem } from '../../test/problem.ts'
import { type Account, type Answer, startStore } from '../../test/store.ts'

const store = await startStore({ after })
const lamp = await store.addProduct({ stock: null })
const [ada, bob] = [await store.register(), await store.register()]

const list = (by: Account, query = '') => store.call('GET', `/orders${query}`, { token: by.token })
const ids = (answer: Answer): string[] => answer.json.data.map((order: { id: string }) => order.id)

async function place(by: Account, count: number): Promise<string[]> {
  const placed: string[] = []
  for (let i = 0; i < count; i++) {
    const answer = await store.call('POST', '/orders', { token: by.token, body: { items: [{ product_id: lamp.id, quantity: i + 1 }] } })
    assert.equal(answer.status, 201, answer.text)
    placed.push(answer.json.id)
  }
  return placed
}

/** Reads page after page and returns each page followed by its `Link`. Calls `afterEach` after each page. */
async function readPages(by: Account, query: string, afterEach: () => Promise<unknown> = async () => {}): Promise<string[][]> {
  const pages: string[][] = []
  for (let next: string | undefined = query; next !== undefined; ) {
    const page = await list(by, next)
    assert.equal(page.status, 200, page.text)
    pages.push(ids(page))
    next = /^<http:\/\/localhost:3000\/orders(\?[^<>]+)>; rel="next"$/.exec(page.headers.link ?? '')?.[1]
    assert.equal(page.json.has_more, next !== undefined)
    assert.equal(page.json.next_cursor, new URLSearchParams(next).get('cursor'))
    assert.ok(pages.length < 50, 'the list does not end')
    await afterEach()
  }
  return pages
}

const adas = await place(ada, 7)
const bobs = await place(bob, 3)

test("lists only the caller's orders, newest first", async () => {
  const [mine, theirs] = [await list(ada), await list(bob)]
  assert.deepEqual(ids(mine), adas.toReversed())
  assert.deepEqual(ids(theirs), bobs.toReversed())
  assert.deepEqual([mine.json.has_more, mine.json.next_cursor, mine.headers.link], [false, null, undefined])
  assert.equal(mine.headers['cache-control'], 'no-store')
  const one = await store.call('GET', `/orders/${adas[0]}`, { token: ada.token })
  const { timeline: _, ...shown } = one.json
  assert.deepEqual(mine.json.data.at(-1), shown)
})

test('lists nothing for a customer without orders', async () => {
  assert.deepEqual((await list(await store.register())).json, { data: [], has_more: false, next_cursor: null })
})

test('pages without gaps or duplicates while new orders arrive', async () => {
  const before = ids(await list(ada))
  const pages = await readPages(ada, '?limit=2', () => place(ada, 1))
  assert.deepEqual(pages.flat(), before)
  assert.deepEqual(
    pages.map((page) => page.length),
    [2, 2, 2, 1],
  )
})

test('shows new orders first after the clock went back, even over pages', async () => {
  const eve = await store.register()
  const placed = await place(eve, 3)
  await store.pool.query(`update orders set created_at = created_at + interval '2 hours', updated_at = now() where user_id = $1`, [eve.id])
  placed.push(...(await place(eve, 3)))
  assert.deepEqual((await readPages(eve, '?limit=2')).flat(), placed.toReversed())
  assert.deepEqual((await readPages(eve, '?limit=2&status=pending')).flat(), placed.toReversed())
})

test('lists the orders of one status, even over pages', async () => {
  const eve = await store.register()
  const placed = await place(eve, 6)
  const shipped = placed.filter((_, i) => i % 2 === 0)
  await setStatus(store.pool, shipped, 'shipped')
  assert.deepEqual((await readPages(eve, '?limit=1&status=shipped')).flat(), shipped.toReversed())
  assert.deepEqual(ids(await list(eve, '?status=pending')), placed.filter((_, i) => i % 2 === 1).toReversed())
  assert.deepEqual(ids(await list(eve, '?status=returned')), [])
})

test("answers for another customer's order as for a missing one", async () => {
  const answers = await Promise.all([bobs[0], randomUUID()].map((id) => store.call('GET', `/orders/${id}`, { token: ada.token })))
  const [theirs, none] = answers.map((answer) => ({ ...assertProblem(answer, 404, 'not_found'), request_id: '', trace_id: '' }))
  assert.deepEqual(theirs, none)
  const headers = answers.map((answer) => ({ ...answer.headers, 'x-request-id': '', date: '' }))
  assert.deepEqual(headers[0], headers[1])
  assert.equal((await store.call('GET', `/orders/${bobs[0]}`, { token: bob.token })).status, 200)
})

test('reads an order by its id in any letter case', async () => {
  const answer = await store.call('GET', `/orders/${adas[0]?.toUpperCase()}`, { token: ada.token })
  assert.equal(answer.json.id, adas[0])
})
