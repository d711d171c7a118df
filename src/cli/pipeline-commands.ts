import { auditContextOfCommand, recordActivity } from '../activity/record-activity.ts'
import { createPartition, createTopic } from '../app/create-topic.ts'
import { ensureIncarnationOf } from '../app/ensure-incarnation.ts'
import { openLake } from '../app/open-lake.ts'
import { catalogueSlotOf, orderSlotOf } from '../app/prepare-database.ts'
import { type RepairReport, repairLake } from '../audit/replay/repair-lake.ts'
import { type ReplayReport, replay } from '../audit/replay/replay.ts'
import { type CatalogueReplayReport, replayCatalogue } from '../audit/replay/replay-catalogue.ts'
import { rewindSubscriber } from '../audit/replay/rewind-subscriber.ts'
import { reconcile } from '../audit/restore/reconcile.ts'
import { orderPartition } from '../audit/verify/compared-partition.ts'
import { formatReport } from '../audit/verify/format-report.ts'
import { verify } from '../audit/verify/verify.ts'
import type { CatalogueEvent } from '../catalogue/catalogue-event.ts'
import { counted } from '../counted.ts'
import { assertReachable } from '../db/assert-suitable.ts'
import { OperatorError } from '../errors.ts'
import { SUBSCRIBERS, type SubscriberName } from '../subscribers.ts'
import { DeliveryLog } from '../topic/delivery-log.ts'
import { isBrokerError } from '../topic/nats/connection.ts'
import { CATALOGUE } from '../topic/partitions.ts'
import type { Topic } from '../topic/topic.ts'
import { type Contexts, UsageError } from './command.ts'
import { isUntrusted } from './explain-error.ts'
import { reportRestoredKeys } from './key-commands.ts'
import { withProgress } from './progress.ts'
import { type AuditRecord, summarizeReport, withRecord } from './record-audit.ts'

// An undecided result. The status differs from 2, which means a wrong command line.
const EXIT_UNDECIDED = 3
const MAX_LINES = 100

const now = () => new Date()

/** Status 1 when something is missing, duplicated or corrupt, 3 when that is undecided. */
export async function verifyStore(context: Contexts['database'], verifyArguments: VerifyArguments): Promise<number> {
  const { isJson, from, to, runId } = verifyArguments
  if (from !== undefined && to !== undefined && from >= to) throw new UsageError('--to must be later than --from')
  const command = withOptions('storefront verify', [
    ['--from', from?.toISOString()],
    ['--to', to?.toISOString()],
    ['--json', isJson ? '' : undefined],
  ])
  return withRecord(context, { kind: 'verify', command, id: runId }, (record) => compareStore(context, verifyArguments, record))
}

interface VerifyArguments {
  isJson: boolean
  from: Date | undefined
  to: Date | undefined
  /** The id of the run that the console has recorded. */
  runId?: string | undefined
}

async function compareStore(
  context: Contexts['database'],
  { isJson, from, to }: VerifyArguments,
  { withSteps, setResult, terminal }: AuditRecord,
): Promise<number> {
  const { config, pool } = context
  const { stream: streamUrl } = context.addresses
  await assertReachable(context.addresses, ['stream'])
  return withTopics(context, async (topic, catalogueTopic) => {
    const { lakeFlushSeconds } = config
    const slotName = orderSlotOf(streamUrl)
    const catalogue = { topic: catalogueTopic, slotName: catalogueSlotOf(streamUrl) }
    const placed = from === undefined && to === undefined ? undefined : { from, to }
    const options = { pool, streamUrl, topic, slotName, catalogue, placed, lake: await openLake(config), lakeFlushSeconds, now }
    const report = await withSteps('Comparing orders, catalogue, topic, mails and lake', (onStep) => verify({ ...options, onStep }))
    setResult(summarizeReport(report))
    terminal.out(isJson ? JSON.stringify(report) : formatReport(report))
    if (report.findings.length > 0) return 1
    return report.undecided.length > 0 ? EXIT_UNDECIDED : 0
  })
}

interface ReplayArguments {
  since: Date | undefined
  orderId: string | undefined
  subscriber: SubscriberName | undefined
  /** Begins a new incarnation without evidence from topic and lake. */
  isRestored?: boolean | undefined
  /** The id of the run that the console has recorded. */
  runId?: string | undefined
  /** The command to record, if this run is a step of another command. */
  command?: string
}

/** Publishes missing events, or rewinds one subscriber. The exit status is 1 if events could not be created. */
export async function replayOrders(context: Contexts['database'], replayArguments: ReplayArguments): Promise<number> {
  const { command = describeCommand(replayArguments) } = replayArguments
  return withRecord(context, { kind: 'replay', command, id: replayArguments.runId }, (record) =>
    replayWith({ ...context, terminal: record.terminal }, replayArguments, record),
  )
}

function describeCommand({ since, orderId, subscriber, isRestored = false }: ReplayArguments): string {
  return withOptions('storefront replay', [
    ['--since', since?.toISOString()],
    ['--order', orderId],
    ['--subscriber', subscriber],
    ['--restored', isRestored ? '' : undefined],
  ])
}

function withOptions(command: string, options: readonly [string, string | undefined][]): string {
  const given = options.flatMap(([name, value]) => (value === undefined ? [] : [`${name} ${value}`.trim()]))
  return [command, ...given].join(' ')
}

async function replayWith(
  context: Contexts['database'],
  replayArguments: ReplayArguments,
  { withSteps, setResult }: AuditRecord,
): Promise<number> {
  const { since, orderId, subscriber, isRestored = false } = replayArguments
  const { config, pool, terminal } = context
  const { api: url, stream: streamUrl } = context.addresses
  if (subscriber === undefined) await assertReachable(context.addresses, ['stream'])
  // This precedes the topic, which may begin a new epoch in a restored database.
  const options = { pool, url, logger: context.logger }
  await ensureIncarnationOf(config, isRestored ? { ...options, reason: 'storefront replay --restored says that it was restored' } : options)
  if (isRestored) {
    terminal.out('order numbers, versions and sequences were advanced, and every session has ended')
    await reportRestoredKeys({ pool, terminal })
  }
  // The run is recorded before the first change, because a killed replay has changed something. The console records its
  // own runs.
  if (replayArguments.runId === undefined) {
    const after = { command: replayArguments.command ?? describeCommand(replayArguments) }
    await recordActivity(pool, auditContextOfCommand('replay'), { subjectType: 'audit', subjectId: null, before: null, after })
  }
  if (subscriber === 'lake') return repairWith(context, withSteps, setResult)
  return withTopics(context, async (topic, catalogueTopic) => {
    if (subscriber !== undefined) {
      const wanted = { pool, url, name: subscriber, since }
      const { from, to } = await (SUBSCRIBERS.find(({ name }) => name === subscriber)?.partition === 'catalogue'
        ? rewindSubscriber({ ...wanted, topic: catalogueTopic })
        : rewindSubscriber({ ...wanted, topic }))
      setResult({ subscriber, from, to })
      terminal.out(`${subscriber} reads again what comes after ${to}; it was at ${from}`)
      return 0
    }
    const options = { pool, streamUrl, slotName: orderSlotOf(streamUrl), filter: { since, orderId } }
    const report = await withSteps('Comparing orders and topic', (onStep) => replay(orderPartition(topic), { ...options, onStep }))
    setResult(summarizeReplay(report))
    for (const line of describeReplay(report)) terminal.out(line)
    const isWhole = since === undefined && orderId === undefined
    const catalogue = isWhole
      ? await withSteps('Comparing the catalogue and its events', (onStep) =>
          replayCatalogue({ pool, streamUrl, topic: catalogueTopic, slotName: catalogueSlotOf(streamUrl), onStep }),
        )
      : null
    if (catalogue !== null) for (const line of describeCatalogueReplay(catalogue)) terminal.out(line)
    if (isWhole) await reconcileAfterRestore(context, topic, catalogueTopic)
    return (catalogue?.dropped.length ?? 0) === 0 && report.unknown.length === 0 && report.dropped.length === 0 && report.corrupt === 0
      ? 0
      : 1
  })
}

export async function repair(context: Contexts['database']): Promise<number> {
  await recordActivity(context.pool, auditContextOfCommand('lake repair'), {
    subjectType: 'lake',
    subjectId: null,
    before: null,
    after: null,
  })
  const withSteps: AuditRecord['withSteps'] = (text, work) => withProgress(text, ({ show }) => work(show))
  return repairWith(context, withSteps, () => {})
}

async function repairWith(
  context: Contexts['database'],
  withSteps: AuditRecord['withSteps'],
  setResult: AuditRecord['setResult'],
): Promise<number> {
  const { config, pool, terminal } = context
  const store = await openLake(config)
  try {
    return await withTopics(context, async (topic, catalogueTopic) => {
      const options = { pool, url: context.addresses.api, store, topic, catalogueTopic, now }
      const onRepaired = ({ quarantined, lost, lostRows }: RepairReport) => {
        for (const path of quarantined) terminal.out(`quarantined ${path}`)
        for (const id of lost) terminal.err(`neither the topic nor the database has the event ${id}: it is in a file that was quarantined`)
        for (const { path, rows } of lostRows)
          terminal.err(
            rows === null
              ? `${path} cannot be read, and nothing says how many of its rows are nowhere else`
              : `${counted(rows, 'row')} of ${path} ${rows === 1 ? 'is' : 'are'} nowhere else`,
          )
      }
      const { quarantined, written, later, lostRows, tablesFailure } = await withSteps('Checking the files of the lake', (onStep) =>
        repairLake({ ...options, onStep, onRepaired }),
      )
      setResult({ quarantined: quarantined.length, written, later, lost: lostRows.reduce((sum, { rows }) => sum + (rows ?? 0), 0) })
      terminal.out(`wrote ${counted(written, 'event')} that the lake lacked`)
      if (later > 0) terminal.out(`${later} after the end of the lake are written by the role lake, while a process with it runs`)
      if (tablesFailure !== null)
        terminal.err(`the files are repaired, but not the tables of the newest state: ${tablesFailure}; run storefront lake maintain`)
      return lostRows.length === 0 && tablesFailure === null ? 0 : 1
    })
  } finally {
    store.close()
  }
}

/** Reconciles topic and lake after a restore. Prints the lost orders, whose customers should be informed. */
async function reconcileAfterRestore(
  { config, pool, addresses, terminal }: Contexts['database'],
  topic: Topic,
  catalogueTopic: Topic<CatalogueEvent>,
): Promise<void> {
  const lake = await openLake(config)
  const report = await reconcile({ pool, url: addresses.api, topic, catalogueTopic, lake, now }).finally(() => lake.close())
  if (report === null) return
  terminal.out(`compared topic and lake with the restored database: ${report.lostEvents} events from the lost period are kept`)
  for (const { id, number } of report.lostOrders) terminal.out(`order ${number} is lost: it was placed after the backup (${id})`)
  for (const id of report.changedOrders) terminal.out(`order ${id} has lost changes that were made after the backup`)
  for (const id of report.lostProducts) terminal.out(`product ${id} is lost: it was made after the backup`)
  for (const id of report.restatedProducts)
    terminal.out(`product ${id} has lost changes that were made after the backup: its present state is published`)
}

/** Like `withTopic`, with the catalogue partition too. */
function withTopics(
  context: Contexts['database'],
  work: (topic: Topic, catalogueTopic: Topic<CatalogueEvent>) => Promise<number>,
): Promise<number> {
  return withTopic(context, async (topic) => {
    const { config, pool, addresses, logger } = context
    const catalogueTopic = await createPartition(CATALOGUE, config, { pool, url: addresses.api, logger })
    try {
      await catalogueTopic.start()
      return await work(topic, catalogueTopic)
    } finally {
      await catalogueTopic.stop()
    }
  })
}

async function withTopic(
  { config, pool, addresses, logger }: Contexts['database'],
  work: (topic: Topic) => Promise<number>,
): Promise<number> {
  const deliveryLog = new DeliveryLog({ pool, logger })
  const topic = await createTopic(config, { pool, url: addresses.api, logger, onStored: deliveryLog.published })
  try {
    if (config.nats === null) await topic.start()
    else await assertBroker(topic, config.nats.servers)
    return await work(topic)
  } catch (error) {
    throw config.nats !== null && isBrokerError(error) ? brokerAway(config.nats.servers, error) : error
  } finally {
    await topic.stop()
    await deliveryLog.stop()
  }
}

/** A starting topic would wait for the broker, but a command must not. Throws OperatorError. */
async function assertBroker(topic: Topic, servers: string): Promise<void> {
  try {
    await topic.newestSequence()
  } catch (error) {
    throw error instanceof Error && isUntrusted(error) ? brokerAway(servers, error) : error
  }
}

function brokerAway(servers: string, error: Error): OperatorError {
  const hosts = servers.split(',').map((server) => new URL(server.trim()).host)
  const advice = isUntrusted(error)
    ? 'set NATS_CA to the file of the authority that signed its certificate'
    : 'check that it runs, and NATS_URL'
  return new OperatorError(`NATS cannot be used at ${hosts.join(', ')} (${error.message}); ${advice}`, { cause: error })
}

function summarizeReplay({ dropped, unknown, ...report }: ReplayReport): object {
  return { ...report, dropped: dropped.length, unknown: unknown.length }
}

function describeReplay(report: ReplayReport): string[] {
  const { compared, published, dropped, inFlight, unknown, corrupt, slotLost } = report
  const lines = [`compared ${compared} events with the topic and published ${published} that it lacked`]
  if (slotLost !== null) lines.push(`${slotLost}: a process with the role stream recreates it and publishes what it missed`)
  if (inFlight > 0) lines.push(`${inFlight} more come by the change stream`)
  for (const id of dropped) lines.push(`the topic accepted the event ${id} and does not have it: run storefront replay again`)
  for (const id of unknown) lines.push(`cannot make the event ${id}: the row of the order does not contain it`)
  if (corrupt > 0) lines.push(`${corrupt} messages of the topic are corrupt and block these events: see storefront verify`)
  return lines
}

function describeCatalogueReplay({ recorded, published, dropped }: CatalogueReplayReport): string[] {
  const lines = [`published ${published} events of the catalogue that the topic lacked`]
  if (recorded > 0) lines.unshift(`recorded ${recorded} events of products that had changed without one`)
  for (const id of dropped.slice(0, MAX_LINES)) lines.push(`the topic does not have the event ${id}: see storefront verify`)
  return lines
}
