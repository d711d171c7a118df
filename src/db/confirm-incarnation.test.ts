import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { listIncarnations } from '../topic/incarnations.ts'
import { createPool } from './pool.ts'

/**
 * Pools with the API's role, like those of several processes, and the reasons for which their connections began
 * incarnations.
 */
async function openProcesses(t: TestContext) {
  const { addresses, pool } = await createTestDatabase(t)
  const reasons: string[] = []
  const openProcess = (orderNumber = 0) => {
    const witness = { orderNumber, onIncarnation: (reason: string) => void reasons.push(reason) }
    const opened = createPool({ url: addresses.api, size: 4, applicationName: 'test', onError: () => {}, witness })
    t.after(() => opened.end())
    return opened
  }
  const nextNumber = async () => (await pool.query<{ next: number }>(`select nextval('order_numbers') as next`)).rows[0]?.next ?? 0
  return { pool, reasons, openProcess, nextNumber }
}

test('simultaneous connections to another server begin one incarnation, and use its numbers from their first statement', async (t) => {
  const { pool, reasons, openProcess, nextNumber } = await openProcesses(t)
  const before = await nextNumber()
  await pool.query(`update database_incarnations set identity = '1.00000001.1', compared_at = now()`)
  const processes = Array.from({ length: 4 }, () => openProcess())
  const seen = await Promise.all(
    processes.flatMap((process) =>
      Array.from({ length: 4 }, async () => {
        const { rows } = await process.query<{ next: number }>(`select nextval('order_numbers') as next`)
        return rows[0]?.next ?? 0
      }),
    ),
  )
  assert.ok(
    seen.every((number) => number > before + 10_000),
    String(seen),
  )
  const incarnations = await listIncarnations(pool)
  assert.equal(incarnations.length, 2)
  assert.equal(incarnations[1]?.isCompared, false)
  assert.equal(reasons.length, 1)
  assert.match(reasons[0] ?? '', /^the database was 1\.00000001\.1 and is \d+\.[0-9A-F]{8}\.\d+$/)
})

test("a connection to an older state of the same server begins an incarnation with numbers above the process's last one", async (t) => {
  const { pool, reasons, openProcess, nextNumber } = await openProcesses(t)
  const given = (await nextNumber()) + 500_000
  await openProcess(given).query('select 1')
  assert.match(reasons.join(), /^order numbers were given up to \d+, the database has given \d+$/)
  assert.ok((await nextNumber()) > given + 10_000)
  await openProcess(given).query('select 1')
  assert.equal((await listIncarnations(pool)).length, 2, 'it knows more now')
})

for (const [age, seconds] of [
  ['10 hours', 36_000],
  ['5 years', 86_400],
] as const) {
  test(`the numbers advance by the age of the newest order, for at most a day: ${age}`, async (t) => {
    const { pool, openProcess, nextNumber } = await openProcesses(t)
    await pool.query(
      `insert into orders (id, user_id, status, items, total_amount, currency, status_history, created_at, updated_at)
      select gen_random_uuid(), gen_random_uuid(), 'pending',
        json_build_array(json_build_object('product_id', gen_random_uuid(), 'sku', 'L', 'name', 'Lamp', 'quantity', 1,
          'unit_price', json_build_object('amount', 1, 'currency', 'EUR'), 'total', json_build_object('amount', 1, 'currency', 'EUR'))),
        1, 'EUR', json_build_array(json_build_object('status', 'pending', 'at', now(), 'reason', null,
          'actor', json_build_object('type', 'admin', 'id', null))), now() - $1::interval, now()`,
      [age],
    )
    const before = await nextNumber()
    await pool.query(`update database_incarnations set identity = '1.00000001.1'`)
    await openProcess().query('select 1')
    const advance = (await nextNumber()) - before
    assert.ok(advance >= 100 * seconds && advance <= 100 * seconds + 10_100_000, String(advance))
  })
}

test('new connections to the same server begin no incarnation', async (t) => {
  const { pool, reasons, openProcess, nextNumber } = await openProcesses(t)
  const given = await nextNumber()
  for (let restarts = 0; restarts < 3; restarts++) await openProcess(given).query('select 1')
  assert.equal((await listIncarnations(pool)).length, 1)
  assert.deepEqual(reasons, [])
})
