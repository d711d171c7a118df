import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { pino } from 'pino'
import { registerOperator } from '../../test/register-operator.ts'
import { startStore } from '../../test/store.ts'
import { auditContextOfCommand, recordActivity } from '../activity/record-activity.ts'
import { createApiKey } from '../auth/api-keys/create-api-key.ts'
import { readConfig } from '../config.ts'
import { printActivities } from './activity-commands.ts'

const store = await startStore({ after })

test("activities show the account's address while it exists, and the key's name", async () => {
  const operator = await registerOperator(store)
  const product = await store.addProduct({ stock: 1 })
  const how = { auditContext: auditContextOfCommand('keys create'), now: new Date() }
  const key = await createApiKey(store.pool, { name: 'Scanner', scopes: ['stock:write'], expiresAt: null }, how)
  const setStock = (token: string, stock: number) =>
    store.call('PUT', `/admin/products/${product.id}/stock`, { token, body: { stock, expected: stock - 1 } })
  assert.deepEqual([(await setStock(operator.token, 2)).status, (await setStock(key.key, 3)).status], [200, 200])
  const print = async (json: boolean, limit: number) => {
    const lines: string[] = []
    const exit = () => assert.fail('exits')
    const terminal = { out: (line: string) => void lines.push(line), err: (line: string) => void lines.push(line), exit }
    const context = { pool: store.pool, addresses: store.addresses, terminal, logger: pino({ level: 'silent' }), config: readConfig({}) }
    assert.equal(await printActivities(context, { limit }, json), 0)
    return lines.flatMap((line) => line.split('\n'))
  }
  const list = async () =>
    JSON.parse((await print(true, 3)).join('\n')).map(({ actor, actor_name }: Record<string, string | null>) => [actor, actor_name])
  const [byKey, byOperator, byCommand] = [
    [`key ${key.id}`, 'Scanner'],
    [`admin ${operator.id}`, operator.email],
    ['system', null],
  ]
  assert.deepEqual(await list(), [byKey, byOperator, byCommand])
  await recordActivity(store.pool, auditContextOfCommand('a long one'), {
    subjectType: 'store',
    subjectId: null,
    before: null,
    after: { text: 'x'.repeat(5_000) },
  })
  const widths = async (json: boolean) => Math.max(...(await print(json, 1)).map((line) => line.length))
  assert.ok((await widths(false)) < 400 && (await widths(true)) > 5_000, 'a table that a terminal can show, and JSON with everything')
  await store.pool.query(`delete from activities where action = 'a long one'`)
  await registerOperator(store)
  await store.pool.query('delete from users where id = $1', [operator.id])
  assert.deepEqual(await list(), [byKey, [byOperator[0], null], byCommand])
})
