import { randomUUIDv7 } from 'node:crypto'
import type { Pool, Queryable, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'

export const AUDIT_KINDS = ['verify', 'replay'] as const
export type AuditKind = (typeof AUDIT_KINDS)[number]

/** The status of a run. `faults` means that the run found faults, `failed` that it has no result. */
export type AuditStatus = 'running' | 'passed' | 'faults' | 'undecided' | 'failed'

export interface AuditRun {
  id: string
  kind: AuditKind
  command: string
  /** The operator who started the run. Null for the command line. */
  started_by: string | null
  started_at: Date
  status: AuditStatus
  progress: string | null
  finished_at: Date | null
  exit_status: number | null
  result: Record<string, unknown> | null
  output: string | null
}

/** The process of a run writes a heartbeat every five seconds. */
const DEAD_AFTER_SECONDS = 30
const MAX_TEXT = 200
const MAX_OUTPUT = 20_000
const KEEP_DAYS = 90
const KEEP_RUNS = 500
const EXIT_UNDECIDED = 3
const DIED = 'The process of this run ended without a result.'

const IS_DEAD = sql`finished_at is null and heartbeat_at < now() - make_interval(secs => ${DEAD_AFTER_SECONDS})`
const COLUMNS = sql`id, kind, command, started_by, started_at, progress, exit_status, result,
  case when ${IS_DEAD} then heartbeat_at else finished_at end as finished_at,
  case when ${IS_DEAD} then ${DIED} else output end as output,
  case
    when ${IS_DEAD} then 'failed'
    when finished_at is null then 'running'
    when result is null then 'failed'
    when exit_status = 0 then 'passed'
    when exit_status = ${EXIT_UNDECIDED} then 'undecided'
    else 'faults'
  end as status`

interface NewRun {
  kind: AuditKind
  command: string
}

export async function recordRun(db: Queryable, { kind, command }: NewRun): Promise<string> {
  const id = randomUUIDv7()
  await db.query(sql`insert into audit_runs (id, kind, command) values (${id}, ${kind}, ${command.slice(0, MAX_TEXT)})`)
  return id
}

/** `isNew` is false during a run of this kind anywhere. A run whose process has died counts as finished. */
export async function beginRun(
  pool: Pool,
  { kind, command, startedBy, onBegun }: NewRun & { startedBy: string | null; onBegun: (tx: Transaction, id: string) => Promise<void> },
): Promise<{ run: AuditRun; isNew: boolean }> {
  return inTransaction(pool, async (tx) => {
    await tx.query(sql`select pg_advisory_xact_lock(hashtextextended(${`storefront audit ${kind}`}, 0))`)
    await closeDeadRuns(tx)
    const { rows: running } = await tx.query<AuditRun>(
      sql`select ${COLUMNS} from audit_runs where kind = ${kind} and finished_at is null order by started_at, id limit 1`,
    )
    if (running[0] !== undefined) return { run: running[0], isNew: false }
    const { rows } = await tx.query<AuditRun>(
      sql`insert into audit_runs (id, kind, command, started_by)
      values (${randomUUIDv7()}, ${kind}, ${command}, ${startedBy})
      returning ${COLUMNS}`,
    )
    const run = rows[0] as AuditRun
    await onBegun(tx, run.id)
    return { run, isNew: true }
  })
}

/** A heartbeat. Returns false when the run counts as finished. */
export async function reportRun(db: Queryable, id: string, progress: string | null): Promise<boolean> {
  const { rowCount } = await db.query(
    sql`update audit_runs
    set heartbeat_at = now(), progress = coalesce(${progress?.slice(0, MAX_TEXT) ?? null}, progress)
    where id = ${id} and finished_at is null`,
  )
  return rowCount === 1
}

export interface RunOutcome {
  exitStatus: number | null
  result: object | null
  output: string
}

/** A run that counted as dead may have been paused, so its outcome counts, too. */
export async function finishRun(db: Queryable, id: string, { exitStatus, result, output }: RunOutcome): Promise<void> {
  await db.query(
    sql`update audit_runs
    set finished_at = now(), heartbeat_at = now(), exit_status = ${exitStatus},
      result = ${result === null ? null : JSON.stringify(result)}::jsonb, output = ${shorten(output)}
    where id = ${id}`,
  )
}

export async function failUnfinishedRun(db: Queryable, id: string, reason: string): Promise<void> {
  await db.query(sql`update audit_runs set finished_at = now(), output = ${shorten(reason)} where id = ${id} and finished_at is null`)
}

async function closeDeadRuns(db: Queryable): Promise<void> {
  await db.query(sql`update audit_runs set finished_at = heartbeat_at, output = ${DIED} where ${IS_DEAD}`)
}

/** PostgreSQL's text has no null character. */
function shorten(text: string): string {
  const clean = text.replaceAll('\0', '')
  return clean.length <= MAX_OUTPUT ? clean : `${clean.slice(0, MAX_OUTPUT - 2)}\n…`
}

export interface RunFilter {
  kind?: AuditKind | undefined
  before?: { startedAt: string; id: string } | undefined
  limit: number
}

export async function listRuns(db: Queryable, { kind, before, limit }: RunFilter): Promise<(AuditRun & { position: string })[]> {
  const isOfKind = kind === undefined ? sql`true` : sql`kind = ${kind}`
  const isBefore = before === undefined ? sql`true` : sql`(started_at, id) < (${before.startedAt}::timestamptz, ${before.id}::uuid)`
  const { rows } = await db.query<AuditRun & { position: string }>(
    sql`select ${COLUMNS}, started_at::text as position
    from audit_runs
    where ${isOfKind} and ${isBefore}
    order by started_at desc, id desc
    limit ${limit}`,
  )
  return rows
}

export async function findRun(db: Queryable, id: string): Promise<AuditRun | null> {
  const { rows } = await db.query<AuditRun>(sql`select ${COLUMNS} from audit_runs where id = ${id}`)
  return rows[0] ?? null
}

/** The result is null when no run has ended. */
export async function findLastRun(db: Queryable, kind: AuditKind): Promise<AuditRun | null> {
  const { rows } = await db.query<AuditRun>(
    sql`select ${COLUMNS}
    from audit_runs
    where kind = ${kind} and (finished_at is not null or ${IS_DEAD})
    order by started_at desc, id desc
    limit 1`,
  )
  return rows[0] ?? null
}

/** Deletes runs older than 90 days and all but the newest 500 of each kind, never the newest one. */
export async function deleteOldRuns(db: Queryable): Promise<number> {
  await closeDeadRuns(db)
  const { rowCount } = await db.query(
    sql`delete from audit_runs
    where finished_at is not null and id in (
      select id
      from (select id, started_at, row_number() over (partition by kind order by started_at desc, id desc) as place from audit_runs) as run
      where place > ${KEEP_RUNS} or place > 1 and started_at < now() - make_interval(days => ${KEEP_DAYS})
    )`,
  )
  return rowCount ?? 0
}
