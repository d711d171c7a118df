import type { CatalogueEvent } from '../../catalogue/catalogue-event.ts'
import { listDeadLetters } from '../../change-stream/dead-letters.ts'
import type { Pool } from '../../db/pool.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { ORDER_DATASET } from '../../lake/lake-dataset.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import { findUnreconciledReason, listIncarnations } from '../../topic/incarnations.ts'
import type { Topic } from '../../topic/topic.ts'
import { describeLoss, knownUpTo } from '../restore/ensure-incarnation.ts'
import { type ComparedStores, findDataLoss, findLakeAhead } from '../restore/find-data-loss.ts'
import { awaitInFlight, type InFlightOptions, type InFlightResult, MISSING_FROM_TOPIC, PATIENCE_MS } from './await-in-flight.ts'
import { type CatalogueOptions, type CatalogueReport, compareCatalogue } from './compare-catalogue.ts'
import { type CatalogueLakeReport, compareCatalogueLake } from './compare-catalogue-lake.ts'
import { addUnregistered, findIncomplete, readTables } from './compare-tables.ts'
import { type ComparisonTables, withComparisonTables } from './comparison-tables.ts'
import { findDifferences, IS_LOST } from './find-differences.ts'
import { type Finding, listFindings, MAX_EXAMPLES, type Place } from './finding.ts'
import { findInvalidRows, InvalidRows } from './invalid-rows.ts'
import { readLake } from './read-lake.ts'
import { readMails } from './read-mails.ts'
import { readOrders } from './read-orders.ts'
import { readTopic } from './read-topic.ts'

/** `patienceMs`: also how far a subscriber may lag. */
export interface VerifyOptions extends InFlightOptions {
  lake: LakeStore
  /** The partition of the catalogue and its slot; absent: it is not compared. */
  catalogue?: Pick<CatalogueOptions, 'topic' | 'slotName'>
  /** How long the sink may buffer events; default 60. */
  lakeFlushSeconds?: number
  /** The pause between two commits of the Iceberg table, 300 by default; 0: by command only. */
  lakeTableSeconds?: number
  now: () => Date
}

/** Events in flight, and the age of the oldest in seconds. */
export interface Lag {
  events: number
  seconds: number
}

export interface VerifyReport {
  orders: { orders: number; versions: number }
  topic: { events: number; lag: Lag; isSettled: boolean }
  /** The catalogue's comparison; null when it was not compared. */
  catalogue: CatalogueReport | null
  /** The comparison of the catalogue's lake files; null when they were not compared. */
  catalogueLake: CatalogueLakeReport | null
  mails: { sent: number; queued: number; failed: number; lag: Lag }
  /** `lostEvents`: events whose orders a restore has lost; they stay in the lake. `refusal`: why this database may not write to the lake. */
  lake: { files: number; events: number; lostEvents: number; lag: Lag; refusal: string | null }
  /** The Iceberg tables that were written, the events in `order_events`, and those of the lake that wait for its next commit. */
  tables: { tables: number; events: number; waiting: number }
  findings: Finding[]
  /** Places that lack events which are either in flight or lost: it cannot be decided yet. */
  undecided: Place[]
}

const LAKE_FLUSH_SECONDS = 60
const LAKE_TABLE_SECONDS = 300

/**
 * Compares orders, topic, mails and lake with each other, also beside a running store. Reads each subscriber's position, then its data,
 * then the topic, then the orders. In this order an event in flight is no fault: each event of a subscriber must be on the topic, each
 * event of the topic in an order, and each event of the topic up to a subscriber's position must be in its data.
 */
export async function verify(options: VerifyOptions): Promise<VerifyReport> {
  const { pool, topic, patienceMs = PATIENCE_MS, onStep = () => {} } = options
  const { lakeFlushSeconds = LAKE_FLUSH_SECONDS, lakeTableSeconds = LAKE_TABLE_SECONDS } = options
  return withComparisonTables(async (tables) => {
    const startedAt = options.now().getTime()
    const restored = await findRestored({ pool, topic, lake: options.lake }, options.catalogue?.topic)
    await tables.add('lost_ranges', restored.ranges)
    const mailPosition = await findSubscriberPosition(pool, 'email')
    await readMails(pool, tables, onStep)
    onStep('reading the tables of the lake')
    const tablesRead = await readTables(options.lake, tables)
    const lake = await readLake(options.lake, ORDER_DATASET, tables, { onStep })
    const topicEnd = await readTopic(topic, tables, 0, onStep)
    const invalidOrders = new InvalidRows('orders', MAX_EXAMPLES)
    const orders = await readOrders(pool, tables, {}, invalidOrders, onStep)
    await tables.add('dead_letters', await listDeadLetters(pool))
    const tableIsDue = lakeTableSeconds > 0 ? startedAt - patienceMs - lakeTableSeconds * 1_000 : 0
    await addUnregistered(tables, lake, tablesRead, tableIsDue)
    const inFlight = await awaitInFlight(tables, options, topicEnd)
    onStep('comparing')
    const invalidRows = [...invalidOrders.found(), ...(await findInvalidRows(pool, MAX_EXAMPLES))]
    const invalid = invalidRows.map((rows): Finding => ({ ...rows, kind: 'invalid' }))
    const findings = [
      ...[...restored.findings, ...invalid, ...(await findDifferences(tables, { mailPosition, topicEnd, lake, tablesRead, inFlight }))],
      ...listFindings('tables', 'missing', await findIncomplete(tables, tablesRead, ORDER_DATASET.name)),
    ]
    const behind = {
      mails: sql`from topic_events anti join mail_events using (event_id) where topic_events.sequence > ${mailPosition} and is_mailed = 1`,
      lake: sql`from topic_events anti join lake_events using (event_id) where topic_events.sequence > ${lake.lastSequence}`,
    }
    // Measured from the start: later events of the topic need not be in the data that was read before it.
    const isOverdue = async (events: Sql, mayTakeMs: number) =>
      (await tables.count(sql`${events} and changed_at < ${startedAt - mayTakeMs}`)) > 0
    const undecided: Place[] = inFlight.isSettled ? [] : ['topic']
    if (await isOverdue(behind.mails, patienceMs)) undecided.push('mails')
    if (await isOverdue(behind.lake, patienceMs + lakeFlushSeconds * 1_000)) undecided.push('lake')
    const compared = options.catalogue === undefined ? null : await compareCatalogue({ ...options, ...options.catalogue })
    if (compared !== null) findings.push(...compared.findings)
    if (compared?.isSettled === false) undecided.push('catalogue')
    const dueBefore = startedAt - patienceMs - lakeFlushSeconds * 1_000
    const catalogueLake =
      options.catalogue === undefined
        ? null
        : await compareCatalogueLake({
            ...{ pool, lake: options.lake, topic: options.catalogue.topic, tablesRead, dueBefore, tableDueBefore: tableIsDue, onStep },
          })
    if (catalogueLake !== null) findings.push(...catalogueLake.findings)
    if (catalogueLake?.isOverdue) undecided.push('catalogue in the lake')
    const lagOf = (events: Sql) => measureLag(tables, events, options.now())
    const mails = await tables.select<{ status: string; n: number }>(sql`select status, count(*) as n from mail_events group by status`)
    const mailsThatAre = (status: string) => mails.find((row) => row.status === status)?.n ?? 0
    return {
      orders: { orders, versions: await tables.count(sql`from order_events`) },
      topic: {
        events: await tables.count(sql`from topic_events`),
        lag: inFlight.slotLost !== null ? { events: 0, seconds: 0 } : await lagOf(inFlightEvents(inFlight)),
        isSettled: inFlight.isSettled,
      },
      catalogue: compared && withoutFindings(compared),
      catalogueLake: catalogueLake && withoutFindings(catalogueLake),
      mails: {
        sent: mailsThatAre('sent'),
        queued: mailsThatAre('queued'),
        failed: mailsThatAre('failed'),
        lag: await lagOf(behind.mails),
      },
      lake: {
        files: lake.files.length,
        events: await tables.count(sql`from lake_events`),
        lostEvents: await tables.count(sql`from lake_events anti join order_events using (event_id) semi join lost_ranges on ${IS_LOST}`),
        lag: await lagOf(behind.lake),
        refusal: (await findLakeAhead({ pool, topic }, lake.lastSequence))?.message ?? null,
      },
      tables: {
        tables: tablesRead.count,
        events: await tables.count(sql`from table_events`),
        waiting: await tables.count(sql`from unregistered_events where is_late = 0`),
      },
      findings,
      undecided,
    }
  })
}

function withoutFindings<Report>({ findings: _, ...report }: Report & { findings: Finding[] }): Omit<Report, 'findings'> {
  return report
}

/** A finding when the database was restored and is not yet reconciled with topic and lake; and the ranges in which it has lost events. */
async function findRestored(
  compared: ComparedStores,
  catalogueTopic: Topic<CatalogueEvent> | undefined,
): Promise<{ findings: Finding[]; ranges: { after: number; up_to: number }[] }> {
  const incarnations = await listIncarnations(compared.pool)
  const ranges = incarnations.flatMap(({ lost }) => (lost === null ? [] : [{ after: lost.after, up_to: lost.upTo }]))
  const lost = await findDataLoss(compared, knownUpTo(incarnations))
  const examples = lost === null ? [] : [describeLoss(lost), ...lost.examples]
  if (catalogueTopic !== undefined) {
    const catalogueLost = await findDataLoss({ ...compared, topic: catalogueTopic }, knownUpTo(incarnations, 'catalogueLost'))
    if (catalogueLost !== null) examples.push(describeLoss(catalogueLost, 'events of the catalogue'), ...catalogueLost.examples)
  }
  const unreconciled = await findUnreconciledReason(compared.pool)
  if (unreconciled !== null) examples.push(unreconciled)
  return { findings: examples.length === 0 ? [] : [{ place: 'database', kind: 'restored', count: 1, examples }], ranges }
}

/** The last sequence that a subscriber has handled, 0 for none. */
async function findSubscriberPosition(pool: Pool, name: string): Promise<number> {
  const { rows } = await pool.query<{ sequence: number | null }>('select sequence from topic_subscribers where name = $1', [name])
  return rows[0]?.sequence ?? 0
}

function inFlightEvents({ isSettled }: InFlightResult): Sql {
  return isSettled ? sql`from (${MISSING_FROM_TOPIC}) semi join held_events using (event_id)` : sql`from (${MISSING_FROM_TOPIC})`
}

async function measureLag(tables: ComparisonTables, from: Sql, now: Date): Promise<Lag> {
  const [row] = await tables.select<{ events: number; oldest: number | null }>(
    sql`select count(*) as events, min(changed_at) as oldest from (select changed_at ${from})`,
  )
  const ageMs = row?.oldest == null ? 0 : Math.max(0, now.getTime() - row.oldest)
  return { events: row?.events ?? 0, seconds: Math.round(ageMs / 100) / 10 }
}
