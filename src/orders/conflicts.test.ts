import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { addBuyer, addBuyers } from '../../test/buyers.ts'
import { assertProblem } from '../../test/problem.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'
import { DEADLOCK_DETECTED, SERIALIZATION_FAILURE } from '../db/sql-state.ts'

const store = await startStore({ after })
const [ada, operator] = [await addBuyer(store), await addBuyer(store, 'admin')]

const TABLES = ['orders', 'inventory', 'products', 'sessions']

// A sequence per table counts the planned conflicts. A rollback does not return a sequence's number.
await store.pool.query(`
  create sequence conflicts;
  grant usage, select on sequence conflicts to public;
  create table planned_conflicts (state text, up_to bigint);
  grant select on planned_conflicts to public;
  create function conflict() returns trigger language plpgsql as $$
  declare
    planned planned_conflicts;
  begin
    select * into planned from planned_conflicts;
    if found and nextval('conflicts') <= planned.up_to then
      raise exception 'conflict' using errcode = planned.state;
    end if;
    return null;
  end $$;
  ${TABLES.map((table) => `create trigger conflict after insert or update on ${table} for each row execute function conflict()`).join(';')}`)

/** The next `times` writes of these tables fail with a conflict. */
async function plan(state: string, times: number): Promise<void> {
  await store.pool.query('truncate planned_conflicts; alter sequence conflicts restart')
  await store.pool.query('insert into planned_conflicts values ($1, $2)', [state, times])
}

const FOREVER = 1_000_000

for (const state of [SERIALIZATION_FAILURE, DEADLOCK_DETECTED]) {
  test(`an SQLSTATE ${state} that outlasts the retries is 503 with Retry-After, and a shorter one is not visible`, async () => {
    await store.pool.query('truncate planned_conflicts')
    const lamp = await store.addProduct({ stock: 100 })
    const body = { items: [{ product_id: lamp.id, quantity: 1 }] }
    const token = ada.token
    const admin = operator.token
    const { json: placed } = await store.call('POST', '/orders', { token, body })
    const { json: product, headers } = await store.call('GET', `/admin/products/${lamp.id}`, { token: admin })
    assert.equal(product.id, lamp.id)
    const calls = {
      place: () => store.call('POST', '/orders', { token, body }),
      cancel: () => store.call('POST', `/orders/${placed.id}/cancel`, { token }),
      adjust: () =>
        store.call('POST', `/admin/products/${lamp.id}/stock/adjustments`, {
          token: admin,
          body: { delta: 1, reference: `found ${state}`, reason: null },
        }),
      change: () =>
        store.call('PATCH', `/admin/products/${lamp.id}`, {
          token: admin,
          body: { name: `A lamp for ${state}` },
          headers: { 'if-match': headers.etag ?? '' },
        }),
      register: () =>
        store.call('POST', '/auth/register', {
          body: { email: `conflict-${state.toLowerCase()}@example.com`, password: 'a long enough passphrase' },
        }),
    }
    for (const [name, call] of Object.entries(calls)) {
      await plan(state, FOREVER)
      const refused = await call()
      assertProblem(refused, 503, 'unavailable')
      assert.match(refused.headers['retry-after'] ?? '', /^\d+$/, name)
      await plan(state, 1)
      const answered = await call()
      assert.ok([200, 201].includes(answered.status), `${name}: ${answered.text}`)
    }
    assert.deepEqual(await store.readStock(lamp), [100])
  })
}

for (const level of ['repeatable read', 'serializable'])
  test(`no call is 500 where the isolation of the database is ${level} and all calls want the same product`, async (t) => {
    await store.pool.query('truncate planned_conflicts')
    await store.pool.query(`alter database ${new URL(store.url).pathname.slice(1)} set default_transaction_isolation = '${level}'`)
    // The second process opens new connections, which have this isolation level.
    const { call } = await startSecondProcess(t, store)
    const lamp = await store.addProduct({ stock: 1_000 })
    const buyers = await addBuyers(store, 4)
    const statuses: number[] = []
    const rounds = async ({ token }: { token: string }, by: number) => {
      for (let round = 0; round < 10; round++) {
        const placed = await call('POST', '/orders', { token, body: { items: [{ product_id: lamp.id, quantity: 1 }] } })
        statuses.push(placed.status)
        if (placed.status !== 201) continue
        const [cancelled, adjusted] = await Promise.all([
          call('POST', `/orders/${placed.json.id}/cancel`, { token }),
          call('POST', `/admin/products/${lamp.id}/stock/adjustments`, {
            token: operator.token,
            body: { delta: 1, reference: `${level} ${by} ${round}`, reason: null },
          }),
        ])
        statuses.push(cancelled.status, adjusted.status)
      }
    }
    await Promise.all(buyers.map(rounds))
    // A busy machine may answer 503.
    assert.deepEqual(
      statuses.filter((status) => status >= 400 && status !== 503),
      [],
    )
    assert.ok(statuses.filter((status) => status < 300).length > statuses.length / 2)
  })
