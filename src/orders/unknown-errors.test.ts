import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { addBuyer } from '../../test/buyers.ts'
import { onCleanup } from '../../test/cleanup.ts'
import { collectLog } from '../../test/logs.ts'
import { assertProblem } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'

const { logger, entries: logged } = collectLog<{ request_id?: string; lines?: number; err: { message: string } }>('error')
const store = await startStore({ after }, { logger })
const [customer, operator] = [await store.register(), await addBuyer(store, 'admin')]
const lamp = await store.addProduct({ stock: null })

const place = (note?: string) =>
  store.call('POST', '/orders', { token: customer.token, body: { items: [{ product_id: lamp.id, quantity: 1 }], ...(note && { note }) } })

async function moveLines(lines: object[]) {
  const answer = await store.call('POST', '/admin/orders/transitions', {
    token: operator.token,
    raw: lines.map((line) => JSON.stringify(line)).join('\n'),
    headers: { 'content-type': 'application/x-ndjson' },
  })
  assert.equal(answer.status, 200, answer.text)
  return {
    requestId: answer.headers['x-request-id'],
    results: answer.text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line)),
  }
}

/** Makes the database refuse order rows with the note `poison`, with an unexpected error of this SQLSTATE. */
async function refusePoison(t: TestContext, sqlstate: string): Promise<void> {
  await store.pool.query(`
    create function refuse_poison() returns trigger language plpgsql as $$
    begin
      if new.note = 'poison' then raise exception 'no poison here' using errcode = tg_argv[0]; end if;
      return new;
    end $$`)
  onCleanup(t, async () => void (await store.pool.query('drop function refuse_poison cascade')))
  await store.pool.query(
    `create trigger refuse_poison before insert or update on orders for each row execute function refuse_poison('${sqlstate}')`,
  )
  logged.length = 0
}

test('answers `internal` for a line of a bulk move that fails for an unknown reason, logs it once, and makes the other moves', async (t) => {
  const orders = [await place(), await place('poison'), await place('poison'), await place()].map(({ json }) => json.id as string)
  await refusePoison(t, 'P0001')
  const { requestId, results } = await moveLines(orders.map((order_id) => ({ order_id, to: 'confirmed' })))
  assert.deepEqual(
    results.map(({ ok, code, request_id }) => [ok, code, request_id]),
    [
      [true, undefined, undefined],
      [false, 'internal', requestId],
      [false, 'internal', requestId],
      [true, undefined, undefined],
    ],
  )
  assert.doesNotMatch(JSON.stringify(results), /again|poison/)
  assert.equal(logged.length, 1, JSON.stringify(logged))
  assert.deepEqual([logged[0]?.request_id, logged[0]?.lines, logged[0]?.err.message], [requestId, 2, 'no poison here'])
})

test('invites a retry of a line of a bulk move only when the database was too slow or is unavailable', async (t) => {
  const order = (await place('poison')).json.id
  for (const [sqlstate, code] of [
    ['55P03', 'unavailable'],
    ['57P03', 'unavailable'],
    ['42501', 'internal'],
    ['57014', 'unavailable'],
  ] as const) {
    await t.test(`${sqlstate} is ${code}`, async (t) => {
      await refusePoison(t, sqlstate)
      const [result] = (await moveLines([{ order_id: order, to: 'confirmed' }])).results
      assert.equal(result.code, code)
      assert.equal(/again|Retry/.test(result.detail), code === 'unavailable')
      assert.equal(logged.length, code === 'unavailable' ? 0 : 1)
    })
  }
})

test('answers `internal` for an order of a batch that fails for an unknown reason, logs it once, and places the others', async (t) => {
  await refusePoison(t, 'P0001')
  const answers = await Promise.all([place(), place('poison'), place(), place()])
  assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 201, 201, 500])
  const failed = answers.find(({ status }) => status === 500)
  assertProblem(failed as NonNullable<typeof failed>, 500, 'internal')
  assert.equal(logged.length, 1, JSON.stringify(logged))
  assert.equal(logged[0]?.request_id, failed?.json.request_id)
})
