// The floor of a page or search that is not in memory: bare `node:http` that runs the same statements with bare `pg`,
// without a transaction, and sends the same properties. It answers its parent with its port.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import pg from 'pg'

export interface BareList {
  url: string
  poolSize: number
  statements: { name?: string; text: string; values: unknown[] }[]
  /** A placeholder in the values, which the number at the end of the request's path replaces. */
  marker: number
}

const LIMIT = 20

process.on('message', async ({ url, poolSize, statements, marker }: BareList) => {
  const pool = new pg.Pool({ connectionString: url, max: poolSize })
  const server = createServer(async (request, response) => {
    const number = Number(/\d+$/.exec(request.url ?? '')?.[0])
    const results: pg.QueryResult[] = []
    const client = await pool.connect()
    for (const { values, ...statement } of statements) {
      results.push(await client.query({ ...statement, values: values.map((value) => (value === marker ? number : value)) }))
    }
    client.release()
    const rows = results.flatMap((result) => result.rows)
    const data = rows.slice(0, LIMIT).map((row) => ({
      id: row.id,
      slug: row.slug,
      sku: row.sku,
      name: row.name,
      description: row.description,
      category: row.category,
      brand: row.brand,
      image_url: row.image_url,
      group: row.variant_group,
      options: row.options,
      price: { amount: Number(row.price_amount), currency: row.price_currency },
      compare_at_price: row.compare_at_amount,
      lowest_price_30_days: row.lowest_prior_amount,
      in_stock: row.in_stock,
      created_at: row.created_at,
      updated_at: row.updated_at,
    }))
    const body = JSON.stringify({ data, has_more: rows.length > LIMIT, next_cursor: rows[LIMIT - 1]?.id })
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  process.send?.((server.address() as AddressInfo).port)
})
