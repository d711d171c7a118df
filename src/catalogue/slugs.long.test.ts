import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { registerOperator } from '../../test/register-operator.ts'
import { startStore } from '../../test/store.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)
const RENAMES = 1_000
const MAX_FORMER = 100

test('a product that is renamed back and forth a thousand times keeps few former slugs, and each leads directly to the current slug', async () => {
  const { id } = await store.addProduct({ name: 'Here' })
  const headers = { 'if-match': '*' }
  const rename = async (slug: string) => {
    const answer = await store.call('PATCH', `/admin/products/${id}`, { token, headers, body: { slug } })
    assert.deepEqual([answer.status, answer.json.slug], [200, slug], answer.text)
  }
  const bySlug = (slug: string) => store.call('GET', `/products/by-slug/${slug}`)
  // Back and forth, and each fourth time somewhere new.
  for (let time = 1; time <= RENAMES; time++) await rename(time % 4 === 0 ? `place-${time}` : time % 2 === 0 ? 'here' : 'there')
  const now = `place-${RENAMES}`
  const { rows } = await store.pool.query('select slug from product_slugs where product_id = $1 and retired_at is not null', [id])
  const former = rows.map(({ slug }) => slug)
  assert.equal(former.length, MAX_FORMER)
  for (const slug of ['here', 'there', 'place-996']) assert.ok(former.includes(slug), slug)
  assert.equal((await bySlug(now)).status, 200)
  for (const slug of former) {
    const answer = await bySlug(slug)
    assert.deepEqual([answer.status, answer.json.moved_to], [301, now], slug)
    assert.ok(answer.headers.location?.endsWith(`/products/by-slug/${now}`), slug)
  }
  assert.equal((await bySlug('place-4')).status, 404)
  await rename('here')
  assert.equal((await bySlug('here')).status, 200)
  assert.equal((await bySlug(now)).json.moved_to, 'here')
})
