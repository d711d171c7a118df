import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { startStore } from '../../test/store.ts'

const [FIRST, SECOND, DISABLED] = [1, 2, 3].map((number) => `01997a61-7a12-7d33-9b40-00000000000${number}`)

test('lists endpoints without secrets, shows their deliveries, and queues them again', async (t) => {
  const store = await startStore(t)
  const { token } = await registerOperator(store)
  await store.pool.query(
    `insert into webhook_endpoints (id, url, sealed_secret, disabled_at, disabled_reason)
    values ($1, 'https://one.example/a?token=very-secret', 'one', null, null), ($2, 'https://two.example/', 'two', null, null),
      ($3, 'https://three.example/', 'three', now(), 'it failed for three days')`,
    [FIRST, SECOND, DISABLED],
  )
  await store.pool.query(
    `with event as (
      insert into webhook_events (event_id, type, body)
      select gen_random_uuid() || case number % 2 when 0 then '.stock.' else '.' end || number, 'order.placed', '{}'
      from generate_series(1, 7) as number
      returning event_id, substring(event_id from '[0-9]+$')::int as number
    )
    insert into webhook_deliveries (endpoint_id, event_id, status, queued_at)
    select endpoint_id, event_id, case when number % 2 = 0 then 'failed' else 'delivered' end, now() - number / 2 * interval '1 minute'
    from event, unnest($1::uuid[]) as endpoint_id`,
    [[FIRST, SECOND]],
  )
  const list = (path: string) => store.call('GET', path, { token })
  const { json, text } = await list('/admin/webhooks')
  assert.deepEqual(
    json.data.map(({ url, state, failed }: Record<string, unknown>) => [url, state, failed]),
    [
      ['https://one.example/a?…', 'enabled', 3],
      ['https://two.example/', 'enabled', 3],
      ['https://three.example/', 'disabled', 0],
    ],
  )
  assert.doesNotMatch(text, /secret/)
  const path = `/admin/webhooks/${FIRST}/deliveries`
  assert.equal((await list(path)).json.data.length, 7)
  const failed = (await list(`${path}?status=failed`)).json.data
  assert.equal(failed.length, 3)

  const again = (id: string | undefined, body: object) => store.call('POST', `/admin/webhooks/${id}/redeliver`, { token, body })
  assert.match(failed[0].event_id, /\.stock\./)
  assert.deepEqual((await again(FIRST, { event_id: failed[0].event_id })).json, { queued: 1 })
  assert.deepEqual((await again(FIRST, { all_failed: true })).json, { queued: 2 })
  const { rows } = await store.pool.query(
    `select endpoint_id, count(*)::int as n from webhook_deliveries where status = 'queued' group by endpoint_id`,
  )
  assert.deepEqual(rows, [{ endpoint_id: FIRST, n: 3 }], 'those of the other endpoint stay')
  assertProblem(await again(DISABLED, { all_failed: true }), 409, 'webhook_disabled')
  for (const unknown of [`${randomUUID()}.1`, `${randomUUID()}.stock.2`]) {
    assertProblem(await again(FIRST, { event_id: unknown }), 404, 'not_found')
  }
  assertProblem(await again(randomUUID(), { all_failed: true }), 404, 'not_found')
  assertProblem(await again(FIRST, {}), 422, 'invalid_body')
})
