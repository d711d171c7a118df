import { counted } from '../../counted.ts'
import type { Lag } from './compare-partition.ts'
import type { Finding, FindingKind, Place } from './finding.ts'
import type { VerifyReport } from './verify.ts'

const SHOWN_EXAMPLES = 10

const MEANINGS: Partial<Record<`${Place} ${FindingKind}`, string>> = {
  'database restored': 'start the store, or run storefront replay, which keeps the events that the lost period published',
  'catalogue missing': 'storefront replay publishes them',
  'catalogue corrupt': 'no subscriber can use them: delete them from the topic, then storefront replay',
  'catalogue dead-lettered': 'no event can be made of these rows of product_events, or the broker refuses them',
  'catalogue in the lake missing': 'run storefront lake repair; a running role lake writes what the newest file had after it',
  'catalogue in the lake doubled': 'storefront lake repair removes them',
  'catalogue in the lake altered': 'storefront lake repair writes them again',
  'catalogue in the lake corrupt': 'storefront lake repair sets the files aside and writes them again',
  'catalogue altered': 'a row was corrected by SQL after its event: delete the event from the topic, then storefront replay',
  'topic altered': 'a row was corrected by SQL after its event: delete the event from the topic, then storefront replay',
  'catalogue unordered': 'subscribers may have the state of an earlier version',
  'topic unordered': 'subscribers may have the state of an earlier version',
  'products altered': 'their newest events are not their state, as after a change by SQL: storefront replay records it',
  'orders corrupt': 'the status history lacks a version, or the lines are no list',
  'orders invalid': 'the database refuses such rows now: correct them by SQL; an order with a broken history cannot be moved before',
  'order counts invalid': 'somebody wrote around the triggers: correct pending_order_counts',
  'order search invalid': 'somebody wrote around the triggers: the API corrects them, and examines 1.4 million orders a day',
  'products corrupt': 'no event can be made of these rows of product_events: repair them',
  'products invalid': 'the database refuses such rows now: correct them',
  'stock invalid': 'the database refuses such rows now: count the stock and set it',
  'change stream lost': 'changes since then are not published; a process with the role stream recreates the slot and publishes them',
  'change stream dead-lettered': 'no event was published: repair the row or what the reason names, then run storefront replay',
  'topic corrupt': 'no subscriber can use them: delete them from the topic, then storefront replay',
  'topic missing': 'storefront replay publishes them',
  'mails missing': 'storefront replay --subscriber email queues them',
  'lake missing': 'storefront lake repair writes them',
  'lake doubled': 'storefront lake repair removes them',
  'lake altered': 'storefront lake repair writes them again',
  'tables missing': 'storefront lake maintain writes them again, after storefront lake repair where the lake has faults, too',
  'tables corrupt':
    'storefront lake maintain writes what it can again and ends the snapshots that cannot be read, after storefront lake repair where the lake has faults, too',
  'tables moved': 'the store finds its files at the new place: storefront lake maintain writes the metadata for other readers',
  'lake corrupt': 'storefront lake repair sets the files aside and writes them again',
}

export function formatReport(report: VerifyReport): string {
  const { orders, topic, catalogue, catalogueLake, mails, lake, tables, findings, undecided } = report
  const waiting = topic.isSettled ? '' : '; the change stream has not reached them, so they may be missing'
  const late = (place: Place) => (undecided.includes(place) ? ', longer than it should take' : '')
  return [
    `orders  ${counted(orders.orders, 'order')}, ${counted(orders.versions, 'version')}`,
    `topic   ${counted(topic.events, 'event')}${describeLag(topic.lag)}${waiting}`,
    ...(catalogue === null ? [] : [`catalog ${describeCatalogue(catalogue)}${late('catalogue')}`]),
    `mails   ${mails.sent} sent, ${mails.queued} queued, ${mails.failed} failed${describeLag(mails.lag)}${late('mails')}`,
    `lake    ${counted(lake.events, 'event')} in ${counted(lake.files, 'file')}${describeLost(lake)}${describeLag(lake.lag)}${late('lake')}`,
    ...(catalogueLake === null ? [] : [`lake    ${describeCatalogueLake(catalogueLake)}${late('catalogue in the lake')}`]),
    ...(tables.tables === 0 ? [] : [`tables  ${counted(tables.tables, 'table')}`]),
    ...findings.flatMap((finding) => describeFinding(finding, finding.place === 'lake' ? lake.refusal : null)),
    describeVerdict(report),
  ].join('\n')
}

function describeVerdict({ findings, undecided }: VerifyReport): string {
  const faults = `${counted(findings.length, 'kind')} of fault`
  if (undecided.length === 0) return findings.length === 0 ? 'nothing is missing, doubled or corrupt' : faults
  const open = `see ${undecided.join(', ')}`
  return findings.length === 0
    ? `cannot tell whether anything is missing: ${open}`
    : `${faults}; cannot tell whether more is missing: ${open}`
}

function describeCatalogue({ events, published, waiting, toRecord }: NonNullable<VerifyReport['catalogue']>): string {
  const unrecorded = toRecord === 0 ? '' : `; ${counted(toRecord, 'product')} still to be recorded`
  return `${counted(events, 'event')}, ${published} on the topic${describeWaiting(waiting)}${unrecorded}`
}

function describeCatalogueLake({ events, files, waiting }: NonNullable<VerifyReport['catalogueLake']>): string {
  return `${counted(events, 'event')} of the catalogue in ${counted(files, 'file')}${describeWaiting(waiting)}`
}

function describeWaiting(waiting: number): string {
  return waiting === 0 ? '' : `; ${waiting} on the way`
}

function describeLost({ lostEvents }: VerifyReport['lake']): string {
  return lostEvents === 0 ? '' : `, ${lostEvents} of them of a time that a restore has lost`
}

function describeLag({ events, seconds }: Lag): string {
  return events === 0 ? '' : `; ${counted(events, 'event')} on the way, the oldest for ${seconds} s`
}

/** Describes a finding. `refusal` says why the usual remedy is refused; null if it is not. */
function describeFinding({ place, kind, count: n, examples }: Finding, refusal: string | null): string[] {
  const meaning = refusal ?? MEANINGS[`${place} ${kind}`]
  const shown = examples.slice(0, SHOWN_EXAMPLES)
  return [
    `${place}: ${n} ${kind}${meaning === undefined ? '' : ` (${meaning})`}`,
    ...shown.map((example) => `  ${example}`),
    ...(n > shown.length ? [`  … and ${n - shown.length} more`] : []),
  ]
}
