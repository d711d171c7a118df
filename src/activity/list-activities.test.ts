import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { registerOperator } from '../../test/register-operator.ts'
import { startStore } from '../../test/store.ts'
import { type ActivityFilter, listActivities } from './list-activities.ts'

const store = await startStore({ after })
const operator = await registerOperator(store)
const list = (query: string) => operator.call('GET', `/admin/activities?${query}`)

// One row per second. A command is the author of every hundredth row, and ten operators are the authors of the others.
await store.pool.query(
  `insert into activities (at, actor_type, actor_id, action, subject_type, subject_id, after)
   select timestamptz '2026-01-01' + n * interval '1 second', case when n % 100 = 0 then 'system' else 'admin' end,
     case when n % 100 > 0 then 'op-' || n % 10 end, case when n % 1000 = 0 then 'webhook add' else 'setStock' end,
     case when n % 100 = 0 then 'webhook' else 'product' end, 'p-' || n % 5000, '{}'
   from generate_series(1, 100000) as n`,
)
await store.pool.query('analyze activities')

test('filters combine, and the pages have no gaps', async () => {
  const seen: number[] = []
  let query = 'actor=system&action=webhook%20add&from=2026-01-01T00:00:00Z&to=2026-01-01T12:00:00Z&limit=20'
  for (const filters = query; ; ) {
    const { status, json, text } = await list(query)
    assert.equal(status, 200, text)
    seen.push(...json.data.map(({ at }: { at: string }) => (Date.parse(at) - Date.parse('2026-01-01')) / 1_000))
    if (!json.has_more) break
    query = `${filters}&cursor=${json.next_cursor}`
  }
  assert.deepEqual(
    seen,
    Array.from({ length: 43 }, (_, index) => (43 - index) * 1_000),
  )
  const { json } = await list('subject_type=product&subject_id=p-7&actor=op-7')
  assert.equal(json.data.length, 20)
  assert.deepEqual(json.data[0].subject, { type: 'product', id: 'p-7' })
  assert.equal((await list('actor=op-1&limit=1')).json.data[0].actor.id, 'op-1')
})

test("each filter reads a page from an index in the list's order, whatever the number of rows", async () => {
  const filters: Omit<ActivityFilter, 'limit'>[] = [
    {},
    { actor: 'op-3' },
    { actor: 'system' },
    { subjectType: 'webhook' },
    { subjectId: 'p-7' },
    { action: 'webhook add' },
    { from: new Date('2026-01-01T03:00:00Z'), to: new Date('2026-01-01T04:00:00Z') },
    { actor: 'op-3', from: new Date('2026-01-01T03:00:00Z'), to: new Date('2026-01-01T04:00:00Z') },
    { before: { at: new Date('2026-01-01T05:00:00Z'), id: 5_000 } },
  ]
  for (const filter of filters) {
    const statements: { text: string; values: unknown[] }[] = []
    const query = async (statement: (typeof statements)[number]) => {
      statements.push(statement)
      return { rows: [] }
    }
    await listActivities({ query } as never, { ...filter, limit: 21 })
    const { text = '', values = [] } = statements[0] ?? {}
    const { rows } = await store.pool.query(`explain (analyze, format json) ${text}`, values)
    const plan = JSON.stringify(rows[0]['QUERY PLAN'])
    assert.match(plan, /activities_[a-z_]+_idx/, JSON.stringify(filter))
    assert.doesNotMatch(plan, /Seq Scan/, JSON.stringify(filter))
    const read = [...plan.matchAll(/"(?:Actual Rows|Rows Removed by Filter)":(\d+)/g)].map(([, count]) => Number(count))
    assert.ok(
      read.every((count) => count <= 100),
      `${JSON.stringify(filter)} ${plan}`,
    )
  }
})
