import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { pino } from 'pino'
import { promptly } from '../../test/eventually.ts'
import { startStore } from '../../test/store.ts'
import { readConfig } from '../config.ts'
import { OperatorError } from '../errors.ts'
import { UsageError } from './command.ts'
import { createKey, listKeys, reportRestoredKeys, revokeKey, rotateKey } from './key-commands.ts'

const store = await startStore({ after })

/** The context of a command on the running store's database, and the lines that the command printed. */
function context() {
  const lines: string[] = []
  const exit = () => assert.fail('exits')
  const terminal = { out: (line: string) => void lines.push(line), err: (line: string) => void lines.push(line), exit }
  const { pool, addresses } = store
  return { lines, context: { pool, addresses, terminal, logger: pino({ level: 'silent' }), config: readConfig({}) } }
}
const scopes = ['orders:read', 'orders:move'] as const
const status = async (token: string) => (await store.call('GET', '/admin/orders', { token })).status
const keyIn = (lines: readonly string[]) => lines.find((line) => line.startsWith('key: '))?.slice(5) ?? ''

test('commands make, list, rotate and revoke a key beside a running store', async () => {
  const made = context()
  assert.equal(await createKey(made.context, 'Payment provider', { scopes, expiresInDays: 30 }), 0)
  const [, id = ''] = /^made the key (\S{36})$/.exec(made.lines[0] ?? '') ?? []
  const key = keyIn(made.lines)
  assert.equal(made.lines.at(-1), 'It is not shown again.')
  assert.equal(await status(key), 200)

  const listed = context()
  assert.equal(await listKeys(listed.context, 50, true), 0)
  const [row] = JSON.parse(listed.lines.join('\n'))
  assert.deepEqual(
    [row.id, row.name, row.state, row.scopes, row.created_by],
    [id, 'Payment provider', 'active', ['orders:move', 'orders:read'], null],
  )
  assert.ok(Math.abs(Date.parse(row.expires_at) - Date.now() - 30 * 86_400_000) < 60_000)
  assert.ok(!listed.lines.join('').includes(key))

  const rotated = context()
  assert.equal(await rotateKey(rotated.context, id, 1), 0)
  const next = keyIn(rotated.lines)
  assert.match(rotated.lines.at(-1) ?? '', /^The previous secret is valid until \d{4}-\S+Z\.$/)
  for (const either of [key, next]) await promptly(store.pool, async () => (await status(either)) === 200, { withinMs: 1_000 })
  const ended = context()
  await rotateKey(ended.context, id.toUpperCase(), 0)
  assert.equal(ended.lines.at(-1), 'The previous secret ends within a second.')
  await promptly(store.pool, async () => (await status(next)) === 401, { withinMs: 1_000 })

  const revoked = context()
  assert.equal(await revokeKey(revoked.context, id), 0)
  await promptly(store.pool, async () => (await status(keyIn(ended.lines))) === 401, { withinMs: 1_000 })
  const { rows } = await store.pool.query(
    'select action, actor_type, actor_id, request_id is not null as has_id from activities where subject_id = $1 order by id',
    [id],
  )
  const expected = ['keys create', 'keys rotate', 'keys rotate', 'keys revoke']
  assert.deepEqual(
    rows,
    expected.map((action) => ({ action, actor_type: 'system', actor_id: null, has_id: true })),
  )
})

test('refuses in one line what an operator can correct', async () => {
  const nobody = '01900000-0000-7000-8000-000000000000'
  const wrong: [() => Promise<number>, new (message: string) => Error, RegExp][] = [
    [() => createKey(context().context, ' blank', { scopes, expiresInDays: undefined }), UsageError, /^the name must be one line/],
    [() => createKey(context().context, 'A', { scopes: [], expiresInDays: undefined }), UsageError, /--scopes orders:read/],
    [() => rotateKey(context().context, 'x', undefined), UsageError, /^"x" is no id of a key/],
    [() => rotateKey(context().context, nobody, undefined), OperatorError, /^there is no key 0190.*storefront keys list/],
    [() => revokeKey(context().context, nobody), OperatorError, /^there is no key 0190/],
  ]
  for (const [run, kind, message] of wrong) await assert.rejects(run, (error) => error instanceof kind && message.test(error.message))
  const made = context()
  await createKey(made.context, 'A', { scopes, expiresInDays: undefined })
  const id = made.lines[0]?.slice(-36) ?? ''
  await revokeKey(made.context, id)
  await assert.rejects(rotateKey(made.context, id, undefined), { message: 'The API key is revoked: make another one.' })
})

test('lists no more keys than the limit, the newest first, over several pages', async () => {
  const made = []
  for (let i = 0; i < 3; i++) {
    const { lines, context: own } = context()
    await createKey(own, `Key ${i}`, { scopes, expiresInDays: undefined })
    made.push(lines[0]?.slice(-36))
  }
  const idsOf = async (limit: number) => {
    const { lines, context: own } = context()
    await listKeys(own, limit, true)
    return JSON.parse(lines.join('\n')).map(({ id }: { id: string }) => id)
  }
  assert.deepEqual(await idsOf(2), made.toReversed().slice(0, 2))
  assert.deepEqual((await idsOf(10_000)).slice(0, 3), made.toReversed())
})

test('a restore reports that keys are as in the backup, if there are any', async (t) => {
  const { lines, context: own } = context()
  await reportRestoredKeys(own)
  assert.match(lines.join('\n'), /^API keys are as in the backup \(\d+ active\): revoke again those that were revoked since/)
  const empty = await startStore(t)
  const without = context()
  await reportRestoredKeys({ ...without.context, pool: empty.pool })
  assert.deepEqual(without.lines, [])
})
