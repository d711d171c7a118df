import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type pg from 'pg'
import { createTestDatabase } from '../../test/database.ts'
import type { Queryable } from '../db/pool.ts'
import { findMails, type MailSearch } from './find-mails.ts'

const { pool } = await createTestDatabase({ after })
const MAILS = Number(process.env.MAILS ?? 40_000)
const [RARE, FREQUENT, RARE_ORDER] = [
  '00000000-0000-4000-8000-000000000001',
  '00000000-0000-4000-8000-000000000002',
  '00000000-0000-4000-8000-000000000003',
]

interface PlanNode {
  'Relation Name'?: string
  'Actual Rows': number
  'Rows Removed by Filter'?: number
  'Actual Loops': number
  Plans?: PlanNode[]
}

/** Counts the rows of `email_deliveries` that a search reads. */
async function countRowsRead(search: MailSearch): Promise<number> {
  let read = 0
  const explain = async (query: { text: string; values: unknown[] }) => {
    const { rows } = await pool.query({ text: `explain (analyze, format json) ${query.text}`, values: query.values })
    read += rowsOf(rows[0]['QUERY PLAN'][0].Plan)
    return pool.query(query)
  }
  await findMails({ query: explain as unknown as pg.ClientBase['query'] } satisfies Queryable, search)
  return read
}

function rowsOf(node: PlanNode): number {
  const own =
    node['Relation Name'] === 'email_deliveries' ? (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'] : 0
  return own + (node.Plans ?? []).reduce((sum, plan) => sum + rowsOf(plan), 0)
}

test('a page reads about as many mails as it shows, however many mails exist, even for an account without recent ones', async (t) => {
  await pool.query(
    `insert into email_deliveries (event_id, order_id, user_id, event_type, status, queued_at, send_after)
     select id || '.1', case when number = 77 then $4::uuid else id end,
       case when number < 50 then $2::uuid when number % 10 = 0 then $3::uuid else gen_random_uuid() end,
       'storefront.order.created', case when number % 1000 = 0 then 'failed' else 'sent' end,
       '2026-03-01T10:00:00Z'::timestamptz + number / 10 * interval '1 second', now()
     from (select number, gen_random_uuid() as id from generate_series(1, $1::integer) as number) as made`,
    [MAILS, RARE, FREQUENT, RARE_ORDER],
  )
  await pool.query('vacuum analyze email_deliveries')
  const middle = new Date(Date.parse('2026-03-01T10:00:00Z') + MAILS * 50)
  const searches: [string, Omit<MailSearch, 'limit'>, number][] = [
    ['newest', {}, 200],
    ['a page in the middle', { after: { queuedAt: middle, eventId: 'f' } }, 200],
    ['sent', { status: 'sent' }, 100],
    ['failed', { status: 'failed' }, 100],
    ['queued, of which there is none', { status: 'queued' }, 0],
    ['a period', { from: middle, to: new Date(middle.getTime() + 60_000) }, 200],
    ['an order', { order: RARE_ORDER }, 2],
    ['an order by number, which does not exist', { order: '999' }, 0],
    ['an account without recent mails', { userIds: [RARE] }, 100],
    ['an account with a tenth of all', { userIds: [FREQUENT] }, 100],
  ]
  for (const [name, search, bound] of searches) {
    const startedAt = performance.now()
    await findMails(pool, { ...search, limit: 21 })
    t.diagnostic(`${name}: ${(performance.now() - startedAt).toFixed(1)} ms`)
    const read = await countRowsRead({ ...search, limit: 21 })
    assert.ok(read <= bound, `${name}: ${read} rows`)
  }
})
