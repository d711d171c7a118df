import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { untilNoServer } from '../../test/data-folders.ts'
import { eventually } from '../../test/eventually.ts'
import { makeLakeDirectory, writeFiles } from '../../test/lake-harness.ts'
import { makeS3Lake } from '../../test/lake-stores.ts'
import { runStorefront, serve } from '../../test/store-process.ts'
import { makeTestFolder } from '../../test/test-folder.ts'
import { AppError } from '../errors.ts'
import { LocalLakeStore } from './local-store.ts'
import { LakeQueries, type LakeQueriesOptions } from './run-query.ts'

const ENDLESS = 'select count(*) from range(1000000000000::bigint)'

async function makeQueries(t: TestContext, options: Partial<LakeQueriesOptions> = {}) {
  const directory = makeLakeDirectory(t)
  await writeFiles(t, new LocalLakeStore(directory), [2, 2])
  // Other tests have queries too.
  const temporaryDirectory = makeTestFolder(t)
  const queries = new LakeQueries({
    place: { bucket: null, directory, dataDir: directory },
    mayBeMissing: false,
    environment: {},
    temporaryDirectory,
    // A busy machine may need more than a query's ten seconds to start its process.
    timeoutMs: 120_000,
    ...options,
  })
  const run = async (text: string, { signal = new AbortController().signal, operatorId = 'ada' } = {}) =>
    JSON.parse(String(await queries.run({ operatorId, text, limit: 1_000, signal })))
  return { run, spillFolders: () => readdirSync(temporaryDirectory) }
}

/** The processes of queries whose parent is this one, or another. */
function queryProcesses(parent = process.pid): number[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      const isQuery = readFileSync(`/proc/${name}/cmdline`, 'utf8').includes('query-process.ts')
      const [, , ppid] = readFileSync(`/proc/${name}/stat`, 'utf8')
        .replace(/^.*\) /, 'x ')
        .split(' ')
      return isQuery && (parent === 0 || Number(ppid) === parent) ? [Number(name)] : []
    } catch {
      return []
    }
  })
}

const rejectsWith =
  (code: string, message = /./) =>
  (error: unknown) => {
    assert.ok(error instanceof AppError, String(error))
    assert.equal(error.code, code, error.message)
    assert.match(error.message, message)
    return true
  }

test('an endless query is ended, together with its process and its files', async (t) => {
  const { run, spillFolders } = await makeQueries(t, { timeoutMs: 2_000 })
  const startedAt = performance.now()
  await assert.rejects(run(ENDLESS), rejectsWith('query_timeout', /took longer than 2 seconds/))
  assert.ok(performance.now() - startedAt < 30_000)
  const endless = [
    'with recursive t as (select 1 as n union all select n + 1 from t) select count(*) from t',
    'select count(*) from range(1000000) a, range(1000000) b, range(1000000) c where a.range + b.range = c.range + 0.5',
    "select count(*) from (select r, repeat('y', 1000) as s from range(5000000) as t(r) order by s, r)",
    "select max(levenshtein(repeat('ab', 50000), repeat('ba', 50000 + r::int))) from range(100) t(r)",
  ]
  for (const sql of endless)
    await assert.rejects(run(sql), (error: AppError) => ['query_timeout', 'query_refused'].includes(error.code), sql)
  assert.deepEqual([queryProcesses(), spillFolders()], [[], []])
})

test('a query that takes endless memory is refused, and its process stays small', async (t) => {
  const { run, spillFolders } = await makeQueries(t, { timeoutMs: 8_000 })
  let most = 0
  const watch = setInterval(() => {
    for (const pid of queryProcesses()) {
      const [, kib = '0'] = /VmHWM:\s+(\d+)/.exec(readStatus(pid)) ?? []
      most = Math.max(most, Number(kib))
    }
  }, 50)
  t.after(() => clearInterval(watch))
  for (const sql of [
    "select length(repeat('x', 4000000000))",
    "select repeat('x', 400000000)",
    "select list_aggregate(range(100000000), 'sum')",
    "select string_agg(repeat('x', 1000000), '') from range(100000)",
    "select list(repeat('x', 1000000) || r) from range(100000) t(r)",
    "select length(list_reduce(list_transform(range(60), x -> 'xxxxxxxxxx'), (a, b) -> a || a || b))",
    'select count(*) from (select distinct r, hash(r), md5(r::varchar) from range(200000000) t(r))',
    "select rpad('x', 2000000000, 'y'), lpad('x', 2000000000, 'y')",
    `select ${'('.repeat(6_000)}1${')'.repeat(6_000)}`,
    `select ${'not '.repeat(4_900)}true`,
    `select ${Array.from({ length: 2_000 }, (_, index) => `repeat('x', 1000000) as c${index}`)
      .join(',')
      .slice(0, 19_000)
      .replace(/,[^,]*,[^,]*$/, '')}`,
  ]) {
    await run(sql).then(
      ({ rows }) => assert.ok(rows.length <= 1, sql.slice(0, 80)),
      (error: AppError) =>
        assert.ok(['query_refused', 'query_timeout'].includes(error.code), `${sql.slice(0, 80)}: ${error.message} ${error.details.cause}`),
    )
  }
  assert.ok(most > 0 && most < 1_500_000, `${most} KiB`)
  assert.deepEqual([queryProcesses(), spillFolders()], [[], []])
})

test('a query ends when no caller waits for it any more', async (t) => {
  const { run, spillFolders } = await makeQueries(t)
  const gone = new AbortController()
  const answer = run(ENDLESS, { signal: gone.signal })
  await eventually(async () => queryProcesses().length === 1, { what: 'the process of the query' })
  gone.abort()
  await assert.rejects(answer, rejectsWith('query_timeout', /cancelled/))
  assert.deepEqual([queryProcesses(), spillFolders()], [[], []])
  await assert.rejects(run(ENDLESS, { signal: AbortSignal.abort() }), rejectsWith('query_timeout'))
})

test('a crash of the process is a refusal, and the next query is answered', async (t) => {
  const { run } = await makeQueries(t)
  const answer = run(ENDLESS)
  const isStarted = async () => queryProcesses().length === 1
  await eventually(isStarted, { what: 'the process of the query' })
  process.kill(queryProcesses()[0] ?? 0, 'SIGSEGV')
  await assert.rejects(answer, rejectsWith('query_refused', /memory/))
  assert.deepEqual((await run('select 1 as n')).rows, [[1]])
})

test('the process of a query has no secret of the store, and is killed first when memory is short', async (t) => {
  const { run } = await makeQueries(t, { timeoutMs: 4_000 })
  process.env.STOREFRONT_SECRET = 'a secret for tests, long enough to be one'
  t.after(() => delete process.env.STOREFRONT_SECRET)
  const answer = run(ENDLESS)
  answer.catch(() => {})
  await eventually(async () => queryProcesses().some((pid) => readFileSync(`/proc/${pid}/comm`, 'utf8') !== 'sh\n'), {
    what: 'the process',
  })
  const [pid = 0] = queryProcesses()
  const names = readFileSync(`/proc/${pid}/environ`, 'utf8')
    .split('\0')
    .map((line) => line.split('=', 1)[0])
  assert.deepEqual(
    names.filter((name) => !['', 'PWD', 'OLDPWD', 'SHLVL', '_'].includes(name ?? '')),
    [],
  )
  assert.equal(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8').trim(), '1000')
  await assert.rejects(answer)
})

test("a lake in a bucket is read with the configured credentials, and an unavailable bucket is not the query's fault", async (t) => {
  const { store, server } = await makeS3Lake(t)
  assert.ok(server !== null)
  await writeFiles(t, store, [2, 2])
  const place = {
    bucket: { bucket: server.bucket, prefix: 'lake/of tests', endpoint: server.url, region: server.env.AWS_REGION ?? null },
    ...{ directory: '/nowhere', dataDir: makeLakeDirectory(t) },
  }
  const { run } = await makeQueries(t, { place, environment: server.env })
  assert.deepEqual((await run('select count(*) from orders')).rows, [['4']])
  server.fault = () => ({ status: 403 }) as never
  await assert.rejects(run('select count(*) from orders'), rejectsWith('unavailable', /^The lake cannot be read now/))
})

test('killing the store leaves no query running', async (t) => {
  const dataDir = makeLakeDirectory(t)
  const store = await serve(t, { env: { DATA_DIR: dataDir } })
  const post = (path: string, body: unknown, token = '') =>
    fetch(`${store.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(token === '' ? {} : { authorization: `Bearer ${token}` }) },
      body: JSON.stringify(body),
    })
  const made = await runStorefront(t, ['admin', 'create', 'ada@example.com'], {
    env: { DATA_DIR: dataDir },
    input: 'a long enough passphrase\n',
  })
  assert.equal(made.status, 0, made.stderr)
  const { access_token } = (await (
    await post('/auth/login', { email: 'ada@example.com', password: 'a long enough passphrase' })
  ).json()) as { access_token: string }
  const ask = () => post('/admin/lake/queries', { sql: 'select count(*) from orders' }, access_token)
  let empty = await ask()
  while (empty.status === 422) empty = await ask()
  assert.equal(empty.status, 200, await empty.clone().text())
  const client = new AbortController()
  const abandoned = fetch(`${store.url}/admin/lake/queries`, {
    method: 'POST',
    signal: client.signal,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${access_token}` },
    body: JSON.stringify({ sql: ENDLESS }),
  })
  await eventually(async () => queryProcesses(store.pid).length === 1, { what: 'the process of the query' })
  client.abort()
  await assert.rejects(abandoned)
  await eventually(async () => queryProcesses(store.pid).length === 0, { what: 'the end of the query of a client that left' })
  // The test sees the end of the process before the store does. Until then another query is refused.
  let isRefused = true
  const askAgain = () => {
    isRefused = false
    post('/admin/lake/queries', { sql: ENDLESS }, access_token).then(
      ({ status }) => {
        isRefused = status === 429
      },
      () => {},
    )
  }
  await eventually(
    async () => {
      if (isRefused) askAgain()
      return queryProcesses(store.pid).length === 1
    },
    { what: 'the process of the second query' },
  )
  const [pid = 0] = queryProcesses(store.pid)
  await store.end('SIGKILL')
  await eventually(async () => !existsSync(`/proc/${pid}`) || readStatus(pid).includes('zombie'), {
    what: 'the end of the query of a killed store',
  })
  // The store's PostgreSQL ends a moment later. The folder is removed after that.
  await untilNoServer(dataDir)
})

function readStatus(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return ''
  }
}
