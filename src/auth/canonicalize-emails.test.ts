import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { assertProblem } from '../../test/problem.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'

test('the start brings addresses of earlier releases into one form; of two accounts of one mailbox the other form stays, and is reported', async (t) => {
  const store = await startStore(t)
  const [ada, bob, twin] = [
    await store.register({ email: 'ada@bücher.example' }),
    await store.register({ email: 'bob@bücher.example' }),
    await store.register({ email: 'twin@example.com' }),
  ]
  assert.equal(ada.email, 'ada@xn--bcher-kva.example')
  const write = (id: string, email: string) => store.pool.query('update users set email = $2 where id = $1', [id, email])
  await write(ada.id, 'ada@bücher.example')
  await write(twin.id, 'bob@bücher.example')
  const login = (call: typeof store.call, email: string) => call('POST', '/auth/login', { body: { email, password: ada.password } })
  assertProblem(await login(store.call, 'ada@bücher.example'), 401, 'invalid_credentials', 'what a start without the step would mean')

  const lines: string[] = []
  const logger = pino({ level: 'info' }, { write: (line) => void lines.push(line) })
  const later = await startSecondProcess(t, store, { logger })
  for (const email of ['ada@bücher.example', 'ADA@XN--BCHER-KVA.example']) {
    assert.equal((await login(later.call, email)).json.user?.id, ada.id, email)
  }
  const { rows } = await store.pool.query('select id, email from users order by email')
  assert.deepEqual(rows, [
    { id: ada.id, email: 'ada@xn--bcher-kva.example' },
    { id: twin.id, email: 'bob@bücher.example' },
    { id: bob.id, email: 'bob@xn--bcher-kva.example' },
  ])
  assert.equal((await login(later.call, 'bob@bücher.example')).json.user.id, bob.id)
  const warning = lines.find((line) => line.includes('two accounts of one mailbox')) ?? assert.fail('no warning')
  assert.deepEqual([JSON.parse(warning).level, JSON.parse(warning).user_ids], [40, [twin.id]])
  assert.ok(!lines.join('').includes('cher'), 'no address in the log')
})
