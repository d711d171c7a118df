import assert from 'node:assert/strict'
import { registerOperator } from './register-operator.ts'
import type { CallOptions, TestStore } from './store.ts'

export const eur = (amount: number) => ({ amount, currency: 'EUR' })

/** An operator who makes and changes products of a store, and what is recorded of them. */
export async function createCatalogueOperator(store: TestStore) {
  const { token } = await registerOperator(store)
  let lastSku = 0
  const call = (method: string, path: string, options: CallOptions = {}) => store.call(method, path, { token, ...options })
  const change = async (method: string, path: string, body: object) => {
    const { status, text, json } = await call(method, path, { body, headers: { 'if-match': '*' } })
    assert.equal(status, 200, text)
    return json
  }
  const eventsOf = async (id: string, stream = 'product') => {
    const { rows } = await store.pool.query(
      'select version, type, data, traceparent from product_events where product_id = $1 and stream = $2 order by version',
      [id, stream],
    )
    return rows
  }
  return {
    call,
    async create(changes: object = {}) {
      const body = { name: 'A lamp', category: 'lamps', price: eur(1_999), sku: `EVENT-${++lastSku}`, ...changes }
      const { status, json, text } = await call('POST', '/admin/products', { body })
      assert.equal(status, 201, text)
      return json
    },
    patch: (id: string, body: object) => change('PATCH', `/admin/products/${id}`, body),
    setStock: (id: string, stock: number | null) => change('PUT', `/admin/products/${id}/stock`, { stock }),
    eventsOf,
    typesOf: async (id: string, stream?: string) => (await eventsOf(id, stream)).map(({ version, type }) => `${version} ${type}`),
  }
}
