import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'
import type { RunCommand } from './audit-runner.ts'
import { finishRun, recordRun } from './audit-runs.ts'

/** A command that runs until the test ends it, in one of several ways. */
function controlledCommand() {
  const started: { args: readonly string[]; signal: AbortSignal; end: (status: number | null, stderr?: string) => void }[] = []
  const runCommand: RunCommand = (args, { signal }) =>
    new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(new Error('aborted')))
      started.push({ args, signal, end: (status, stderr = '') => resolve({ status, stdout: '', stderr }) })
    })
  return { started, runCommand }
}

const idOf = (started: { args: readonly string[] } | undefined) => started?.args.at(-1) ?? ''

test('starts verify once if two operators ask two processes for it, and shows how it ended', async (t) => {
  const { started, runCommand } = controlledCommand()
  const store = await startStore(t, { runCommand })
  const other = await startSecondProcess(t, store, { runCommand })
  const [one, two] = [await registerOperator(store), await registerOperator(store)]
  const ask = (call: typeof store.call, token: string) => call('POST', '/admin/audits', { token, body: { kind: 'verify' } })
  const answers = await Promise.all([
    ask(store.call, one.token),
    ask(other.call, two.token),
    ask(store.call, one.token),
    ask(other.call, two.token),
  ])
  assert.deepEqual(answers.map(({ status }) => status).sort(), [202, 409, 409, 409])
  const accepted = answers.find(({ status }) => status === 202)
  assert.ok(accepted !== undefined)
  const { id } = accepted.json
  assert.equal(accepted.headers.location, `http://localhost:3000/admin/audits/${id}`)
  assert.equal(accepted.json.status, 'running')
  for (const answer of answers.filter(({ status }) => status === 409)) {
    assertProblem(answer, 409, 'request_in_progress')
    assert.equal(answer.json.run_id, id)
  }
  assert.deepEqual(
    started.map(({ args }) => args),
    [['verify', '--run', id]],
  )
  // Another kind is another run.
  await one.ok('POST', '/admin/audits', { body: { kind: 'replay' } })
  await finishRun(store.pool, id, { exitStatus: 1, result: { findings: [{ place: 'lake' }] }, output: 'lake: 1 missing' })
  started[0]?.end(1)
  const read = () => two.call('GET', `/admin/audits/${id}`)
  assert.deepEqual(await eventually(async () => (await read()).json.status, { what: 'the end' }), 'faults')
  const { json, headers } = await read()
  assert.deepEqual([json.exit_status, json.output, json.result], [1, 'lake: 1 missing', { findings: [{ place: 'lake' }] }])
  const again = await two.call('GET', `/admin/audits/${id}`, {
    headers: { 'if-none-match': String(headers.etag) },
  })
  assert.equal(again.status, 304)
  assert.equal((await ask(store.call, two.token)).status, 202)
})

test('a run whose process was killed fails with the reason, and the next run can start at once', async (t) => {
  const { started, runCommand } = controlledCommand()
  const store = await startStore(t, { runCommand })
  const operator = await registerOperator(store)
  const ask = () => operator.call('POST', '/admin/audits', { body: { kind: 'replay' } })
  await ask()
  started[0]?.end(null, 'out of memory\0')
  const read = () => operator.ok('GET', `/admin/audits/${idOf(started[0])}`)
  await eventually(async () => (await read()).status === 'failed', { what: 'the failed run' })
  assert.equal((await read()).output, 'The process was killed. out of memory')
  assert.equal((await ask()).status, 202)
})

test('a run without a heartbeat counts as failed, does not block the next run, and may still report its result', async (t) => {
  const { runCommand } = controlledCommand()
  const store = await startStore(t, { runCommand })
  const operator = await registerOperator(store)
  const ask = () => operator.call('POST', '/admin/audits', { body: { kind: 'verify' } })
  const { id } = (await ask()).json
  await store.pool.query(`update audit_runs set heartbeat_at = now() - interval '20 seconds'`)
  assertProblem(await ask(), 409, 'request_in_progress', 'it is only slow')
  await store.pool.query(`update audit_runs set heartbeat_at = now() - interval '31 seconds'`)
  const read = () => operator.ok('GET', `/admin/audits/${id}`)
  assert.deepEqual([(await read()).status, (await read()).output], ['failed', 'The process of this run ended without a result.'])
  assert.equal((await ask()).status, 202)
  await finishRun(store.pool, id, { exitStatus: 0, result: { findings: [] }, output: 'fine' })
  assert.deepEqual([(await read()).status, (await read()).output], ['passed', 'fine'])
})

test('a run of the command line blocks a run of an operator, but not the other way round', async (t) => {
  const { runCommand } = controlledCommand()
  const store = await startStore(t, { runCommand })
  const operator = await registerOperator(store)
  const ask = () => operator.call('POST', '/admin/audits', { body: { kind: 'verify' } })
  const id = await recordRun(store.pool, { kind: 'verify', command: 'storefront verify --json' })
  const refused = await ask()
  assertProblem(refused, 409, 'request_in_progress')
  assert.equal(refused.json.run_id, id)
  await finishRun(store.pool, id, { exitStatus: 0, result: {}, output: '' })
  assert.equal((await ask()).status, 202)
  await recordRun(store.pool, { kind: 'verify', command: 'storefront verify' })
})

test('a process that stops ends its run, and records that', async (t) => {
  const { started, runCommand } = controlledCommand()
  const store = await startStore(t)
  const operator = await registerOperator(store)
  const other = await startSecondProcess(t, store, { runCommand })
  const { id } = await other.ok('POST', '/admin/audits', { token: operator.token, body: { kind: 'verify' } })
  await other.app.stop()
  assert.equal(started[0]?.signal.aborted, true)
  const json = await operator.ok('GET', `/admin/audits/${id}`)
  assert.deepEqual([json.status, json.output], ['failed', 'The process of the store that started it was stopped.'])
  // This process cannot start commands.
  assertProblem(await operator.call('POST', '/admin/audits', { body: { kind: 'verify' } }), 503, 'unavailable')
})
