import { withComparisonTables } from '../src/audit/verify/comparison-tables.ts'
import { findDifferences } from '../src/audit/verify/find-differences.ts'
import { sql } from '../src/db/sql.ts'

/**
 * Compares as many events as its argument says, equal in all places, and prints the differences and the most memory
 * in MB.
 */
const events = Number(process.argv[2])
const AT_ONCE = 50_000

const findings = await withComparisonTables(async (tables) => {
  const id = sql`lpad(to_hex(range), 36, '0') || '.1'`
  const digest = sql`left(md5(range::varchar), 16)`
  const erasable = sql`'|' || ${digest} || '|'`
  const digests = sql`list_transform(range(12), lambda column_number: hash(range + column_number))`
  for (let first = 0; first < events; first += AT_ONCE) {
    const from = sql`from range(${first}, ${Math.min(first + AT_ONCE, events)})`
    await tables.run(sql`insert into recorded_events select ${id}, ${digest}, ${erasable}, 1 ${from}`)
    await tables.run(sql`insert into topic_events select ${id}, ${digest}, ${erasable}, 1, range + 1, ${digests}, 1, 1 ${from}`)
    await tables.run(sql`insert into lake_events select ${id}, range + 1, ${digests}, 1 ${from}`)
    await tables.run(sql`insert into mail_events select ${id}, 'sent', 1 ${from}`)
  }
  // One difference, which must be found.
  await tables.run(sql`delete from lake_events where sequence = 17`)
  return findDifferences(
    tables,
    { places: { rows: 'orders', stream: 'change stream', topic: 'topic', lake: 'lake' }, keepsRows: true },
    {
      ...{ mailPosition: events, topicEnd: events, lakeEnd: events },
      inFlight: { slotLost: null, isRefilled: false, isSettled: true, topicEnd: events },
      lake: { files: [], lastSequence: events, corrupt: [] },
      tablesRead: { count: 1, faults: [], moved: [], written: [] },
    },
  )
})
const found = findings.map(({ place, kind, count }) => `${place} ${kind} ${count}`)
console.log(JSON.stringify({ found, mostMb: process.resourceUsage().maxRSS / 1_024 }))
