import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { listActivityFiles } from '../../lake/activity-files.ts'
import { checkChecksum, WRONG_CHECKSUM } from '../../lake/lake-checksum.ts'
import { ifDamaged, makeSpillPath, parquetRows, withDuckDB } from '../../lake/lake-database.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import { selectRows } from '../../lake/query-duckdb.ts'
import { type Finding, type FindingKind, listFindings } from './finding.ts'

/** As `Finding`, of activities. Examples are ids, or files with the reason. */
export interface ActivityComparison {
  recorded: number
  inLake: number
  /** In the lake, and lost by a restore of the database. */
  lost: number
  /** After the end of the lake: they are on the way. */
  waiting: number
  oldestWaitingAt: Date | null
  findings: Finding[]
}

const PAGE_IDS = 20_000
/** Ids of an incarnation begin at its number times this: see migrations/0014_activity_log.sql. */
const IDS_PER_INCARNATION = 1_000_000

/** Compares each activity of the table with those of the lake, up to the lake's end, by id and content. */
export async function compareActivities(pool: Pool, lake: LakeStore): Promise<ActivityComparison> {
  const files = await listActivityFiles(lake)
  return lake.withCopies(files, async (copies) => {
    const damaged: string[] = []
    const readable: string[] = []
    for (const [index, path] of copies.entries()) {
      const isRight = (await checkChecksum(path).catch(ifDamaged('wrong' as const))) === 'right'
      if (isRight) readable.push(path)
      else damaged.push(`${lake.locate(files[index]?.name ?? '')}: ${WRONG_CHECKSUM}`)
    }
    return withDuckDB(makeSpillPath(), async (connection) => {
      const readLake = async (after: number, upTo: number): Promise<[number, string][]> => {
        if (readable.length === 0) return []
        const rows = await selectRows(
          connection,
          sql`select id, epoch_ms(recorded_at), actor_type, actor_id, action, subject_type, subject_id, "before", "after", request_id
          from ${parquetRows(readable)} where id > ${after} and id <= ${upTo} order by id`,
        )
        return rows.map(([id, at, ...rest]) => [Number(id), JSON.stringify([Number(at), ...rest])])
      }
      const readTable = async (after: number, upTo: number): Promise<[number, string][]> => {
        const { rows } = await pool.query<{ id: number; at: Date } & Record<string, unknown>>(
          sql`select id, at, actor_type, actor_id, action, subject_type, subject_id, before::text as before, after::text as after, request_id
          from activities where id > ${after} and id <= ${upTo} order by id`,
        )
        return rows.map(({ id, at, ...rest }) => [id, JSON.stringify([at.getTime(), ...Object.values(rest)])])
      }
      const end =
        readable.length === 0
          ? 0
          : Number((await selectRows(connection, sql`select coalesce(max(id), 0) from ${parquetRows(readable)}`))[0]?.[0])
      const [missing, doubled, altered, unknown]: string[][] = [[], [], [], []]
      const counts = { inLake: 0, lost: 0 }
      const newestIncarnation = await findNewestIncarnation(pool)
      for (let after = 0; after < end; ) {
        const next = await findPageEnd(pool, after, end)
        const lakeRows = await readLake(after, next)
        const table = new Map(await readTable(after, next))
        counts.inLake += lakeRows.length
        const seen = new Set<number>()
        for (const [id, content] of lakeRows) {
          if (seen.has(id)) doubled?.push(String(id))
          else if (!table.has(id) && id <= newestIncarnation * IDS_PER_INCARNATION) counts.lost += 1
          else if (!table.has(id)) unknown?.push(String(id))
          else if (table.get(id) !== content) altered?.push(String(id))
          seen.add(id)
        }
        for (const id of table.keys()) if (!seen.has(id)) missing?.push(String(id))
        after = next
      }
      const found = { missing, doubled, altered, unknown, corrupt: damaged }
      const findings = Object.entries(found).flatMap(([kind, ids = []]) => listFindings('activities', kind as FindingKind, ids))
      const { rows } = await pool.query<{ recorded: number; waiting: number; oldest: Date | null }>(
        sql`select count(*)::int as recorded, count(*) filter (where id > ${end})::int as waiting, min(at) filter (where id > ${end}) as oldest
        from activities`,
      )
      const { recorded = 0, waiting = 0, oldest = null } = rows[0] ?? {}
      return { recorded, ...counts, waiting, oldestWaitingAt: oldest, findings }
    })
  })
}

async function findNewestIncarnation(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ number: number }>('select coalesce(max(number), 0) as number from database_incarnations')
  return rows[0]?.number ?? 0
}

/** The end of the next page: ids of the table, so that the wide gap before an incarnation is one page. */
async function findPageEnd(pool: Pool, after: number, end: number): Promise<number> {
  const { rows } = await pool.query<{ id: number | null }>(
    sql`select max(id) as id from (select id from activities where id > ${after} and id <= ${end} order by id limit ${PAGE_IDS}) as page`,
  )
  const id = rows[0]?.id ?? null
  const { rows: more } = await pool.query(sql`select from activities where id > ${id ?? end} and id <= ${end} limit 1`)
  return id === null || more.length === 0 ? end : id
}
