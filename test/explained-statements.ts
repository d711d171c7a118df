import pg from 'pg'
import { type Cleanup, onCleanup } from './cleanup.ts'
import type { TestDatabase } from './database.ts'

/**
 * A statement as PostgreSQL ran it. Rows and buffers of the triggers and functions that it calls are their own
 * statements'.
 */
export interface ExplainedStatement {
  /** The statement with `$1` for values, on one line. */
  text: string
  /** Rows that it returned or wrote. */
  returned: number
  /** Rows of tables and entries of indexes that it looked at. */
  read: number
  /** Pages of 8 KiB, from memory or disk. */
  buffers: number
  /** What was going on. */
  during: string
}

interface Plan {
  'Node Type': string
  'Actual Rows': number
  'Actual Loops': number
  'Rows Removed by Filter'?: number
  'Rows Removed by Index Recheck'?: number
  'Shared Hit Blocks'?: number
  'Shared Read Blocks'?: number
  Plans?: Plan[]
}

const SCAN = /^(Seq|Sample|Index|Index Only|Bitmap Heap|Bitmap Index|Tid|Tid Range) Scan$/

/**
 * Receives the plan of every statement that this process sends to the database from now on, by auto_explain: as the
 * server has chosen and run it, with the values of the request, generic or not, also inside functions and triggers.
 */
export async function explainStatements(t: Cleanup, db: TestDatabase, onStatement: (statement: ExplainedStatement) => void) {
  const settings = {
    ...{ session_preload_libraries: 'auto_explain', 'auto_explain.log_min_duration': '0', 'auto_explain.log_analyze': 'on' },
    ...{ 'auto_explain.log_buffers': 'on', 'auto_explain.log_timing': 'off', 'auto_explain.log_format': 'json' },
    ...{ 'auto_explain.log_nested_statements': 'on', 'auto_explain.log_level': 'notice' },
  }
  await db.pool.query(`load 'auto_explain'`)
  for (const [name, value] of Object.entries(settings)) await db.pool.query(`alter database ${db.name} set ${name} = '${value}'`)
  const recorder = { during: 'the start of the store' }
  const connect = pg.Client.prototype.connect
  pg.Client.prototype.connect = function (this: pg.Client, ...given: Parameters<typeof connect>) {
    this.on('notice', ({ message = '' }) => {
      const [, plan] = /^duration: .*?plan:\n(.*)$/s.exec(message) ?? []
      // A statement that only asks for a plan has run nothing.
      if (plan?.includes('"Actual Rows"')) onStatement(readPlan(plan, recorder.during))
    })
    return connect.apply(this, given)
  } as typeof connect
  onCleanup(t, () => {
    pg.Client.prototype.connect = connect
  })
  return recorder
}

function readPlan(json: string, during: string): ExplainedStatement {
  const { 'Query Text': text, Plan: plan } = JSON.parse(json) as { 'Query Text': string; Plan: Plan }
  return {
    text: text
      .replace(/--[^\n]*/g, '')
      .replace(/\s+/g, ' ')
      .trim(),
    returned: Math.max(rowsOf(plan), ...writesOf(plan)),
    read: readBy(plan),
    // One that reads no table has the pages of the functions that it calls.
    buffers: scans(plan) ? (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0) : 0,
    during,
  }
}

const scans = (plan: Plan): boolean => SCAN.test(plan['Node Type']) || (plan.Plans ?? []).some(scans)

const rowsOf = (plan: Plan) => Math.round(plan['Actual Rows'] * plan['Actual Loops'])

/** What each insert, update and delete wrote, also those in a `with`. */
function writesOf(plan: Plan): number[] {
  const children = plan.Plans ?? []
  const own = plan['Node Type'] === 'ModifyTable' ? children.map(rowsOf) : []
  return [...own, ...children.flatMap(writesOf)]
}

function readBy(plan: Plan): number {
  const looked = plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0) + (plan['Rows Removed by Index Recheck'] ?? 0)
  const own = SCAN.test(plan['Node Type']) ? looked * plan['Actual Loops'] : 0
  return Math.round(own + (plan.Plans ?? []).reduce((sum, child) => sum + readBy(child), 0))
}
