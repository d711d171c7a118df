import type { Logger } from 'pino'
import { findNewestAssignedSequence } from '../audit/restore/find-data-loss.ts'
import type { Encryption } from '../auth/store-secret.ts'
import type { CatalogueEvent } from '../catalogue/catalogue-event.ts'
import type { Config } from '../config.ts'
import { dataFolder } from '../db/embedded/data-folder.ts'
import type { Pool } from '../db/pool.ts'
import type { JobQueue } from '../jobs/job-queue.ts'
import { TableWriter } from '../lake/iceberg/table-writer.ts'
import { CATALOGUE_DATASET, type LakeDataset, ORDER_DATASET } from '../lake/lake-dataset.ts'
import { LakeAhead } from '../lake/lake-files.ts'
import { LakeSink, type LakeSinkOptions } from '../lake/lake-sink.ts'
import type { LakeStore } from '../lake/lake-store.ts'
import { createAccountMailWorker } from '../mail/account-mail.ts'
import { createEmailSubscriber } from '../mail/email-subscriber.ts'
import { createFileMailer } from '../mail/file-mailer.ts'
import type { MailTemplates } from '../mail/mail-templates.ts'
import { SmtpWatch } from '../mail/smtp-watch.ts'
import type { Metrics } from '../operations/metrics.ts'
import type { TracedPart, Tracing } from '../operations/tracing.ts'
import type { DeliveryLog } from '../topic/delivery-log.ts'
import { lagBehind, readSubscriberLag, type SubscriberLag, saveStoredSequence } from '../topic/subscriber-lag.ts'
import type { MessageHandler, SubscribeOptions, Subscription, Topic, TopicEvent, TopicMessage } from '../topic/topic.ts'
import { isSampled, isTraceparent } from '../traceparent.ts'
import { createWebhookSender } from '../webhooks/webhook-sender.ts'
import { createWebhookSubscriber } from '../webhooks/webhook-subscriber.ts'
import { inOrder, type Service } from './service.ts'

/** The subscriptions of this process, for metrics and readiness. */
export interface Watched {
  metrics: Metrics
  subscriptions: Map<string, Subscription>
  /** Null where this process sends no mail by SMTP. */
  mailServer: { readonly awayReason: string | null } | null
  /** Null where this process writes no lake. */
  lake: { findFailure(): Promise<string | null> } | null
}

/** At most as many as a batch has spans. */
const MAX_WAITING_SPANS = 256

/** Gives each traced event a span when its file of the lake is written. */
function traceLake(tracing: Tracing | null, { nats }: Config) {
  const waiting = new Map<number, TracedPart>()
  const handled = (messages: readonly TopicMessage[]) => {
    for (const { sequence, event } of messages) {
      if (waiting.size < MAX_WAITING_SPANS && isTraceparent(event.traceparent) && isSampled(event.traceparent))
        waiting.set(sequence, { id: event.id, traceparent: event.traceparent })
    }
  }
  const stored = (events: number, upTo: number, since: number) => {
    const written = [...waiting].filter(([sequence]) => sequence <= upTo)
    for (const [sequence] of written) waiting.delete(sequence)
    const parts = written.map(([, part]) => part)
    const attributes: Record<string, string | number> = { 'messaging.system': nats === null ? 'postgresql' : 'nats' }
    if (events > 1) attributes['messaging.batch.message_count'] = events
    tracing?.startBatch('lake', parts, attributes, since)()
  }
  return tracing === null ? null : { handled, stored }
}

type ReadPosition = () => Promise<SubscriberLag | null>

/** Adds a subscription to metrics and readiness. */
function watch({ metrics, subscriptions }: Watched, name: string, subscription: Subscription, readPosition: ReadPosition): Subscription {
  subscriptions.set(name, subscription)
  metrics.watchSubscriber(name, subscription, readPosition)
  return subscription
}

function countCorrupt({ metrics }: Watched, name: string): Pick<SubscribeOptions, 'onCorrupt'> {
  return { onCorrupt: (messages) => metrics.corruptMessagesLeftOut(name, messages.length) }
}

interface LakeOptions {
  pool: Pool
  store: LakeStore
  topic: Topic
  catalogueTopic: Topic<CatalogueEvent>
  deliveryLog: DeliveryLog
  logger: Logger
  watched: Watched
  tracing: Tracing | null
}

/** The subscribers that write the data lake, and what keeps its tables. */
export function createLake(config: Config, options: LakeOptions): Service {
  const { pool, store, topic, catalogueTopic, deliveryLog, logger, watched, tracing } = options
  const traced = traceLake(tracing, config)
  const orders = createSink(config, options, topic, ORDER_DATASET, {
    onStored(sequences, upTo, since) {
      deliveryLog.inLake(sequences)
      traced?.stored(sequences.length, upTo, since)
    },
  })
  const handle: MessageHandler = (messages, signal, fence) => {
    traced?.handled(messages)
    return orders.sink.handle(messages, signal, fence)
  }
  const catalogue = createSink(config, options, catalogueTopic, CATALOGUE_DATASET, {
    onPosition(sequence) {
      // The next file repeats it, and until then old messages stay.
      saveStoredSequence(pool, CATALOGUE_DATASET.subscriber, sequence).catch((error) =>
        logger.warn({ err: error }, 'the end of the lake could not be recorded'),
      )
    },
  })
  watched.lake = orders.sink
  const tables = config.lakeTableSeconds === 0 ? [] : [new TableWriter({ store, seconds: config.lakeTableSeconds, logger })]
  for (const writer of tables) watched.metrics.watchLakeTable(writer)
  return inOrder([...tables, orders.sink, orders.subscribe(handle), catalogue.sink, catalogue.subscribe(catalogue.sink.handle)], async () =>
    store.close(),
  )
}

interface SinkListener extends Pick<LakeSinkOptions, 'onStored'> {
  /** Called with the end of the lake, when the subscription begins to fill it and after each file. */
  onPosition?: (sequence: number) => void
}

/** The sink of a dataset, and the subscription that fills it. */
function createSink<E extends TopicEvent>(
  config: Config,
  { pool, store, logger, watched }: LakeOptions,
  topic: Topic<E>,
  dataset: LakeDataset<E>,
  listener: SinkListener,
) {
  const name = dataset.subscriber
  let stored: number | null = null
  const sink = new LakeSink<E>({
    ...{ store, dataset, logger, flushSeconds: config.lakeFlushSeconds, flushRows: config.lakeFlushRows },
    onStored(sequences, upTo, since) {
      listener.onStored?.(sequences, upTo, since)
      listener.onPosition?.(upTo)
      stored = upTo
    },
    onFileWritten: watched.metrics.lakeFileWritten,
  })
  const lastSequence = async () => {
    stored = await sink.lastSequence()
    const published = await findNewestAssignedSequence(pool, topic)
    if (stored > published) throw new LakeAhead(stored, published)
    listener.onPosition?.(stored)
    return stored
  }
  const subscribe = (handle: MessageHandler<E>) => {
    const subscription = topic.subscribe(name, handle, { lastSequence, ...countCorrupt(watched, name) })
    // The position is in the lake's files: only the process that writes them knows it.
    const readPosition = async () =>
      subscription.state === 'standby' || stored === null ? null : lagBehind(stored, await topic.newestSequence())
    return watch(watched, name, subscription, readPosition)
  }
  return { sink, subscribe }
}

interface JobsOptions {
  pool: Pool
  topic: Topic
  jobs: JobQueue
  encryption: Encryption
  logger: Logger
  now: () => Date
  watched: Watched
  tracing: Tracing | null
}

/** The subscriber that mails customers, and the worker that sends account mails with the same mailer. */
export async function createEmail(
  config: Config,
  { pool, topic, jobs, templates, encryption, logger, now, watched, tracing }: JobsOptions & { templates: MailTemplates },
): Promise<Service> {
  const { mailFrom: from, mailReplyTo: replyTo } = config
  const { smtpCaFile: caFile, mailIdempotencyHeader: idempotencyHeader } = config
  const smtp =
    config.smtpUrl === null
      ? null
      : (await import('../mail/smtp-mailer.ts')).createSmtpMailer({ url: config.smtpUrl, from, replyTo, caFile, idempotencyHeader })
  const onRecovered = (awayMs: number) => {
    subscriber.endPauses(awayMs)
    accountMails.endPauses(awayMs)
  }
  const smtpWatch = smtp === null ? null : new SmtpWatch({ mailer: smtp, probe: smtp.probe, logger, now, onRecovered })
  const mailer = smtpWatch?.mailer ?? createFileMailer({ directory: dataFolder(config.dataDir).mail, from, replyTo })
  if (smtpWatch !== null) {
    watched.mailServer = smtpWatch
    watched.metrics.watchMailServer(smtpWatch)
  }
  const { mailTried } = watched.metrics
  const subscriber = createEmailSubscriber({
    ...{ pool, jobs, mailer, render: templates.render, logger, now, tracing },
    maxPerHour: config.mailMaxPerHour,
    onTried: (outcome) => mailTried('order', outcome),
  })
  const accountMails = createAccountMailWorker({
    ...{ jobs, mailer, encryption, render: templates.renderAccountMail, logger, now },
    onTried: (outcome) => mailTried('account', outcome),
  })
  const subscription = watch(watched, 'email', topic.subscribe('email', subscriber.handle, countCorrupt(watched, 'email')), () =>
    readSubscriberLag(pool, topic, 'email'),
  )
  // Last in, first out: the subscriber closes the mailer.
  return inOrder([subscriber, accountMails, subscription, ...(smtpWatch === null ? [] : [smtpWatch])])
}

/** The subscribers that post events to the endpoints. */
export function createWebhook(
  config: Config,
  { pool, topic, catalogueTopic, jobs, encryption, logger, now, watched, tracing }: JobsOptions & { catalogueTopic: Topic<CatalogueEvent> },
): Service {
  const sender = createWebhookSender({ isPrivateAllowed: config.isPrivateWebhookAllowed })
  const { webhookTried: onTried } = watched.metrics
  const subscriber = createWebhookSubscriber({ pool, jobs, sender, encryption, logger, now, onTried, tracing })
  const subscription = topic.subscribe('webhook', subscriber.handle, countCorrupt(watched, 'webhook'))
  const name = 'catalogue-webhook'
  const catalogue = catalogueTopic.subscribe(name, subscriber.handleCatalogue, countCorrupt(watched, name))
  return inOrder([
    subscriber,
    watch(watched, 'webhook', subscription, () => readSubscriberLag(pool, topic, 'webhook')),
    watch(watched, name, catalogue, () => readSubscriberLag(pool, catalogueTopic, name)),
  ])
}
