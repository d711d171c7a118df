// The floor of GET /orders: bare `node:http` that runs the same query with bare `pg` and sends the same properties.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import pg from 'pg'

process.on('message', async ({ url, poolSize, userId }: { url: string; poolSize: number; userId: string }) => {
  const pool = new pg.Pool({ connectionString: url, max: poolSize })
  const server = createServer(async (_request, response) => {
    const { rows } = await pool.query({
      name: 'list',
      text: `select id, number, user_id, status, items, total_amount, currency, client_reference, shipping_address, note, version,
        status_history, traceparent, created_at, updated_at
      from orders where user_id = $2 order by number desc limit $1`,
      values: [21, userId],
    })
    const data = rows.slice(0, 20).map((row) => ({
      id: row.id,
      number: row.number,
      status: row.status,
      allowed_transitions: ['confirmed', 'cancelled'],
      items: row.items,
      total: { amount: Number(row.total_amount), currency: row.currency },
      client_reference: row.client_reference,
      shipping_address: row.shipping_address,
      note: row.note,
      version: row.version,
      created_at: row.created_at,
      updated_at: row.updated_at,
      status_history: row.status_history,
    }))
    const body = JSON.stringify({ data, has_more: rows.length > 20, next_cursor: rows[19]?.id })
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  process.send?.((server.address() as AddressInfo).port)
})
