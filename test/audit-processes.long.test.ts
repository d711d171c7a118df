import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { type after, type TestContext, test } from 'node:test'
import { findEmbeddedPostgres } from '../src/db/embedded/embedded-postgres.ts'
import { createPool, type Pool } from '../src/db/pool.ts'
import { COMMAND_BOUNDS } from '../src/db/session-settings.ts'
import { onCleanup } from './cleanup.ts'
import { makeDataFolder } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { startAuditedStore } from './pipeline-audit.ts'
import { TEST_SECRET } from './store.ts'
import { runStorefront, type StoreProcess, serve } from './store-process.ts'
import { makeTestFolder } from './test-folder.ts'

const PASSWORD = 'a long enough passphrase'
const KILLED = 'The process was killed.'
const STOPPED = 'The process of the store that started it was stopped.'

/** Temporary files of the stores that a test starts, and of no other. */
function makeTemporaryFolder(t: { after: TestContext['after'] | typeof after }): string {
  const folder = makeTestFolder(t)
  return folder
}

interface Operator {
  call(method: 'GET' | 'POST', path: string, body?: object): Promise<{ status: number; json: Record<string, unknown> }>
  start(kind: 'verify' | 'replay'): Promise<string>
  /** The run when it has ended. */
  untilEnded(id: string): Promise<Record<string, unknown>>
}

async function logIn({ url }: StoreProcess, email: string): Promise<Operator> {
  const send = async (method: string, path: string, body?: object, token?: string) => {
    const answer = await fetch(`${url}${path}`, {
      method,
      headers: { 'content-type': 'application/json', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { status: answer.status, json: (await answer.json()) as Record<string, unknown> }
  }
  const { json } = await send('POST', '/auth/login', { email, password: PASSWORD })
  const token = String(json.access_token)
  const call: Operator['call'] = (method, path, body) => send(method, path, body, token)
  return {
    call,
    async start(kind) {
      const { status, json } = await call('POST', '/admin/audits', { kind })
      assert.equal(status, 202, JSON.stringify(json))
      return String(json.id)
    },
    untilEnded: (id) =>
      eventually(
        async () => {
          const { json } = await call('GET', `/admin/audits/${id}`)
          return json.status !== 'running' && json
        },
        { what: 'the end of the run' },
      ),
  }
}

/** `storefront verify` and `replay` that these processes have started. */
function commandsOf(...parents: StoreProcess[]): number[] {
  const lines = execFileSync('ps', ['-eo', 'pid=,ppid=,args='], { encoding: 'utf8', maxBuffer: 100_000_000 }).split('\n')
  return lines.flatMap((line) => {
    const [, pid, ppid, args = ''] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? []
    const isCommand = / (?:verify|replay) --run /.test(args) && parents.some((parent) => parent.pid === Number(ppid))
    return isCommand ? [Number(pid)] : []
  })
}

/** A process whose parent has died may remain as an entry of the table. */
function isRunning(pid: number): boolean {
  try {
    return !execFileSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' }).startsWith('Z')
  } catch {
    return false
  }
}

const untilGone = (pid: number) => eventually(async () => !isRunning(pid), { what: `the end of process ${pid}`, timeoutMs: 10_000 })

/** Holds every comparison until it is released: each reads this table, after it has made its temporary files. */
async function holdComparisons(t: TestContext, pool: Pool): Promise<() => Promise<void>> {
  const client = await pool.connect()
  client.on('error', () => {})
  await client.query('begin')
  await client.query('lock table email_deliveries in access exclusive mode')
  let release: (() => Promise<void>) | null = async () => {
    release = null
    await client.query('rollback').catch(() => {})
    client.release(true)
  }
  onCleanup(t, async () => release?.())
  return async () => release?.()
}

/** The process of the run, when it has made temporary files. */
function untilInMidRun(folder: string, ...parents: StoreProcess[]): Promise<number> {
  return eventually(
    async () => {
      const isComparing = readdirSync(folder, { recursive: true }).some((name) => String(name).includes('storefront-verify-'))
      const [pid] = commandsOf(...parents)
      return isComparing && pid
    },
    { what: 'a command that compares' },
  )
}

const temporaryFiles = (folder: string) => readdirSync(folder).filter((name) => name.startsWith('storefront-'))

async function untilTidy(folder: string): Promise<void> {
  await eventually(async () => temporaryFiles(folder).length === 0, {
    what: `no temporary files, not ${temporaryFiles(folder)}`,
    timeoutMs: 10_000,
  })
}

/** Ages heartbeats past the time in which a run counts as slow. */
const ageHeartbeats = (pool: Pool) => pool.query(`update audit_runs set heartbeat_at = heartbeat_at - interval '31 seconds'`)

test('two processes of the API on one database', async (t) => {
  const store = await startAuditedStore(t)
  const emails = await Promise.all([store.register({ password: PASSWORD }), store.register({ password: PASSWORD })])
  await store.pool.query(`update users set role = 'admin' where id = any($1)`, [emails.map(({ id }) => id)])
  const stopPipeline = await store.startPipeline()
  const [order = ''] = await store.trade(1)
  await store.untilDelivered()
  await stopPipeline()
  const folder = makeTemporaryFolder(t)
  const env = {
    DATABASE_URL: store.addresses.api,
    DATABASE_STREAM_URL: store.addresses.stream,
    STOREFRONT_SECRET: TEST_SECRET,
    DATA_DIR: store.config.dataDir,
    BASE_URL: store.config.baseUrl,
    TMPDIR: folder,
  }
  const args = ['--role', 'api']
  const [first, second] = await Promise.all([serve(t, { env, args }), serve(t, { env, args })])
  const [one, two] = await Promise.all([logIn(first, emails[0].email), logIn(second, emails[1].email)])

  await t.test('two operators at once start one run, and the second gets its id', async (t) => {
    const release = await holdComparisons(t, store.pool)
    const answers = await Promise.all([one, two].map(({ call }) => call('POST', '/admin/audits', { kind: 'verify' })))
    const [started, refused] = answers.toSorted((a, b) => a.status - b.status)
    assert.deepEqual([started?.status, refused?.status, refused?.json.code], [202, 409, 'request_in_progress'])
    assert.equal(refused?.json.run_id, started?.json.id)
    await untilInMidRun(folder, first, second)
    assert.equal(commandsOf(first, second).length, 1)
    await release()
    const [seen, seenByOther] = [await one.untilEnded(String(started?.json.id)), await two.untilEnded(String(started?.json.id))]
    assert.deepEqual([seen.status, seen.exit_status], ['passed', 0])
    assert.match(String(seen.output), /nothing is missing, doubled or corrupt$/)
    assert.deepEqual(seenByOther, seen)
    await untilTidy(folder)
  })

  await t.test('replay publishes an event that was deleted from the topic, and reports that', async () => {
    const { rowCount } = await store.pool.query(`delete from topic_messages where event ->> 'subject' = $1`, [order])
    assert.equal(rowCount, 1)
    const faults = await one.untilEnded(await one.start('verify'))
    assert.deepEqual([faults.status, faults.exit_status], ['faults', 1])
    assert.deepEqual((faults.result as { findings: unknown }).findings, [
      { place: 'topic', kind: 'missing', count: 1, examples: [`${order}.1`] },
    ])
    const run = await two.untilEnded(await two.start('replay'))
    assert.deepEqual([run.status, run.exit_status, run.command], ['passed', 0, 'storefront replay'])
    assert.deepEqual((run.result as { compared: number; published: number }).published, 1)
    assert.match(String(run.output), /^compared 1 events with the topic and published 1 that it lacked$/m)
    const { rows } = await store.pool.query('select id from topic_messages')
    assert.deepEqual(rows, [{ id: `${order}.1` }])
  })

  await t.test('a command that is killed has failed, leaves no files, and the next one starts', async (t) => {
    await holdComparisons(t, store.pool)
    const id = await one.start('verify')
    process.kill(await untilInMidRun(folder, first), 'SIGKILL')
    const run = await two.untilEnded(id)
    assert.deepEqual([run.status, run.output, run.exit_status], ['failed', KILLED, null])
    await untilTidy(folder)
    const next = await two.start('verify')
    process.kill(await untilInMidRun(folder, second), 'SIGKILL')
    assert.equal((await one.untilEnded(next)).output, KILLED)
  })

  await t.test('when the API is killed, its command ends too, leaves no files, and another process starts the next one', async (t) => {
    await holdComparisons(t, store.pool)
    const id = await two.start('verify')
    const pid = await untilInMidRun(folder, second)
    await second.end('SIGKILL')
    await untilGone(pid)
    await untilTidy(folder)
    await ageHeartbeats(store.pool)
    const run = await one.untilEnded(id)
    assert.deepEqual([run.status, run.output], ['failed', 'The process of this run ended without a result.'])
    const next = await one.start('verify')
    process.kill(await untilInMidRun(folder, first), 'SIGKILL')
    assert.equal((await one.untilEnded(next)).output, KILLED)
  })

  await t.test('when the API stops, it ends its command and records that', async (t) => {
    await holdComparisons(t, store.pool)
    const id = await one.start('verify')
    const pid = await untilInMidRun(folder, first)
    assert.equal(await first.end('SIGTERM'), 0)
    assert.equal(isRunning(pid), false)
    assert.deepEqual(temporaryFiles(folder), [])
    const { rows } = await store.pool.query('select output, finished_at is not null as is_over from audit_runs where id = $1', [id])
    assert.deepEqual(rows, [{ output: STOPPED, is_over: true }])
  })
})

test('a store with its own PostgreSQL: a command, the store and both end in the middle of a run', async (t) => {
  const data = makeDataFolder(t)
  const folder = makeTemporaryFolder(t)
  const env = { DATA_DIR: data.path, TMPDIR: folder, RATE_LIMITS: 'off' }
  const email = 'operator@example.com'
  const open = async () => {
    const store = await serve(t, { env })
    const addresses = (await findEmbeddedPostgres(data)) ?? assert.fail('no server')
    const pool = createPool({ url: addresses.owner, size: 3, applicationName: 'test', onError: () => {}, bounds: COMMAND_BOUNDS })
    onCleanup(t, () => pool.end())
    return { store, pool }
  }
  let { store, pool } = await open()
  const { status, stderr } = await runStorefront(t, ['admin', 'create', email], { env, input: `${PASSWORD}\n` })
  assert.equal(status, 0, stderr)
  let operator = await logIn(store, email)

  await holdComparisons(t, pool)
  const killed = await operator.start('verify')
  process.kill(await untilInMidRun(folder, store), 'SIGKILL')
  assert.equal((await operator.untilEnded(killed)).output, KILLED)
  await untilTidy(folder)
  const stopped = await operator.start('verify')
  const ofStopped = await untilInMidRun(folder, store)
  assert.equal(await store.end('SIGTERM'), 0)
  assert.equal(isRunning(ofStopped), false)
  assert.deepEqual(temporaryFiles(folder), [])

  ;({ store, pool } = await open())
  operator = await logIn(store, email)
  const seen = await operator.untilEnded(stopped)
  assert.deepEqual([seen.status, seen.output], ['failed', STOPPED])
  await holdComparisons(t, pool)
  const orphan = await operator.start('verify')
  const ofKilled = await untilInMidRun(folder, store)
  await store.end('SIGKILL')
  await untilGone(ofKilled)
  await untilTidy(folder)

  ;({ store, pool } = await open())
  operator = await logIn(store, email)
  await ageHeartbeats(pool)
  assert.equal((await operator.untilEnded(orphan)).status, 'failed')
  await operator.start('verify')
})
