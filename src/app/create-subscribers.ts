import { findNewestAssignedSequence } from '../audit/restore/find-data-loss.ts'
import { CACHE_PURGES } from '../catalogue/purge/purge-catalogue.ts'
import type { Config } from '../config.ts'
import { dataFolder } from '../db/embedded/data-folder.ts'
import type { DeliveryKind } from '../deliveries/delivery-kind.ts'
import { CATALOGUE_DATASET, type LakeDataset, ORDER_DATASET } from '../lake/lake-dataset.ts'
import { LakeAhead } from '../lake/lake-files.ts'
import { LakeSink, type LakeSinkOptions } from '../lake/lake-sink.ts'
import type { LakeStore } from '../lake/lake-store.ts'
import { LakeMaintenance } from '../lake/maintain-lake.ts'
import { ACCOUNT_MAILS, createAccountMailWorker } from '../mail/account-mail.ts'
import { MAIL_DELIVERIES } from '../mail/email-deliveries.ts'
import { createEmailSubscriber } from '../mail/email-subscriber.ts'
import { createFileMailer } from '../mail/file-mailer.ts'
import { SmtpWatch } from '../mail/smtp-watch.ts'
import { StaffMails } from '../mail/staff-mails.ts'
import { untilReadable } from '../mail/until-readable.ts'
import type { TracedPart, Tracing } from '../operations/tracing.ts'
import type { QueueSubscriber, SubscriberName, SubscriberRole } from '../subscribers.ts'
import { lagBehind, readSubscriberLag, type SubscriberLag, saveStoredSequence } from '../topic/subscriber-lag.ts'
import type { MessageHandler, SubscribeOptions, Subscription, Topic, TopicEvent, TopicMessage } from '../topic/topic.ts'
import { isSampled, isTraceparent } from '../traceparent.ts'
import { WEBHOOK_DELIVERIES } from '../webhooks/webhook-deliveries.ts'
import { createWebhookSender } from '../webhooks/webhook-sender.ts'
import { createWebhookSubscriber } from '../webhooks/webhook-subscriber.ts'
import { openSuitableLake } from './open-lake.ts'
import type { Service } from './service.ts'
import type { StoreParts } from './store-parts.ts'

const MAKERS: Record<SubscriberRole, (parts: SubscriberParts) => Promise<Service[]>> = {
  lake: createLake,
  email: createEmail,
  webhook: createWebhook,
}

const QUEUES: Record<QueueSubscriber, DeliveryKind> = { email: MAIL_DELIVERIES, webhook: WEBHOOK_DELIVERIES }
export const DELIVERY_KINDS: readonly DeliveryKind[] = [...Object.values(QUEUES), ACCOUNT_MAILS, CACHE_PURGES]

export interface RunningSubscribers {
  subscriptions: Map<SubscriberName, Subscription>
  mailServer: { readonly awayReason: string | null } | null
  lake: { findFailure(): Promise<string | null> } | null
}

type SubscriberParts = StoreParts & { running: RunningSubscribers }

export async function createSubscribers(parts: StoreParts): Promise<{ services: Service[]; running: RunningSubscribers }> {
  const running: RunningSubscribers = { subscriptions: new Map(), mailServer: null, lake: null }
  const services: Service[] = []
  for (const [role, create] of Object.entries(MAKERS))
    if (parts.config.roles.some((own) => own === role)) services.push(...(await create({ ...parts, running })))
  return { services, running }
}

/** A subscriber that stores its position itself. */
interface OwnPosition extends Required<Pick<SubscribeOptions, 'lastSequence'>> {
  readPosition: (subscription: Subscription) => Promise<SubscriberLag | null>
}

function subscribe<E extends TopicEvent>(
  { pool, metrics, running }: SubscriberParts,
  topic: Topic<E>,
  name: SubscriberName,
  handle: MessageHandler<E>,
  own?: OwnPosition,
): Subscription {
  const subscription = topic.subscribe(name, handle, {
    ...(own === undefined ? {} : { lastSequence: own.lastSequence }),
    onCorrupt: (messages) => metrics.corruptMessagesLeftOut(name, messages.length),
  })
  running.subscriptions.set(name, subscription)
  metrics.watchSubscriber(name, subscription, () => own?.readPosition(subscription) ?? readSubscriberLag(pool, topic, name))
  return subscription
}

const MAX_WAITING_SPANS = 256

/** Adds a span to each traced event when its lake file is written. */
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

async function createLake(parts: SubscriberParts): Promise<Service[]> {
  const { config, addresses, pool, topic, catalogueTopic, deliveryLog, logger, tracing, running } = parts
  const store = await openSuitableLake(config, logger)
  const traced = traceLake(tracing, config)
  const orders = createSink(parts, store, topic, ORDER_DATASET, {
    onStored(sequences, upTo, since) {
      deliveryLog.inLake(sequences)
      traced?.stored(sequences.length, upTo, since)
    },
  })
  const handle: MessageHandler = (messages, signal, fence) => {
    traced?.handled(messages)
    return orders.sink.handle(messages, signal, fence)
  }
  const catalogue = createSink(parts, store, catalogueTopic, CATALOGUE_DATASET, {
    onPosition(sequence) {
      // The next file saves the position again. Until then, old messages stay in the topic.
      saveStoredSequence(pool, CATALOGUE_DATASET.subscriber, sequence).catch((error) =>
        logger.warn({ err: error }, 'the end of the lake could not be recorded'),
      )
    },
  })
  running.lake = orders.sink
  const maintenance = new LakeMaintenance({ store, url: addresses.api, logger, onFresh: parts.metrics.lakeTablesFresh })
  const closing: Service = { start: async () => {}, stop: async () => store.close() }
  return [closing, maintenance, orders.sink, orders.subscribe(handle), catalogue.sink, catalogue.subscribe(catalogue.sink.handle)]
}

interface SinkListener extends Pick<LakeSinkOptions, 'onStored'> {
  /** Called with the end of the lake when the subscription begins, and after each file. */
  onPosition?: (sequence: number) => void
}

function createSink<E extends TopicEvent>(
  parts: SubscriberParts,
  store: LakeStore,
  topic: Topic<E>,
  dataset: LakeDataset<E>,
  listener: SinkListener,
) {
  const { config, pool, logger, metrics } = parts
  let stored: number | null = null
  const sink = new LakeSink<E>({
    ...{ store, dataset, logger, flushSeconds: config.lakeFlushSeconds, flushRows: config.lakeFlushRows },
    onStored(sequences, upTo, since) {
      listener.onStored?.(sequences, upTo, since)
      listener.onPosition?.(upTo)
      stored = upTo
    },
    onFileWritten: metrics.lakeFileWritten,
  })
  const own: OwnPosition = {
    async lastSequence(restart) {
      stored = await sink.lastSequence(restart)
      const published = await findNewestAssignedSequence(pool, topic)
      if (stored > published) throw new LakeAhead(stored, published)
      listener.onPosition?.(stored)
      return stored
    },
    // The position is in the lake's files, so only the process that writes them knows it.
    readPosition: async ({ state }) => (state === 'standby' || stored === null ? null : lagBehind(stored, await topic.newestSequence())),
  }
  return { sink, subscribe: (handle: MessageHandler<E>) => subscribe(parts, topic, dataset.subscriber, handle, own) }
}

/** Creates the mail subscriber, and the worker that sends account mails with the same mailer. */
async function createEmail(parts: SubscriberParts): Promise<Service[]> {
  const {
    config,
    pool,
    topic,
    deliveries,
    mailTemplates,
    mailEncryption: encryption,
    orderLinks,
    logger,
    now,
    metrics,
    running,
    tracing,
  } = parts
  if (mailTemplates === null) throw new Error('the role email has no mail templates')
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
    running.mailServer = smtpWatch
    metrics.watchMailServer(smtpWatch)
  }
  const isHeldUp = () => smtpWatch !== null && smtpWatch.awayReason !== null
  const staffMails = config.staffMails === null ? null : new StaffMails({ ...config.staffMails, pool, encryption, isHeldUp, logger, now })
  const subscriber = createEmailSubscriber({
    ...{ pool, deliveries, mailer, render: mailTemplates.render, makeOrderToken: orderLinks.make, logger, now, tracing },
    untilReadable: (events, signal) => untilReadable({ pool, logger }, events, signal),
    maxPerHour: config.mailMaxPerHour,
    staffMails,
    onTried: (outcome) => metrics.mailTried('order', outcome),
  })
  const accountMails = createAccountMailWorker({
    ...{ deliveries, mailer, encryption, render: mailTemplates.renderAccountMail, logger, now },
    onTried: metrics.mailTried,
  })
  // Services stop in reverse order, so the subscriber stops last and closes the mailer.
  const others: Service[] = [staffMails, smtpWatch].filter((service) => service !== null)
  return [subscriber, accountMails, subscribe(parts, topic, 'email', subscriber.handle), ...others]
}

async function createWebhook(parts: SubscriberParts): Promise<Service[]> {
  const { config, pool, topic, catalogueTopic, deliveries, webhookEncryption: encryption, logger, now, metrics, tracing } = parts
  const sender = createWebhookSender({ isPrivateAllowed: config.isPrivateWebhookAllowed })
  const { webhookTried: onTried } = metrics
  const subscriber = createWebhookSubscriber({ pool, deliveries, sender, encryption, logger, now, onTried, tracing })
  return [
    subscriber,
    subscribe(parts, topic, 'webhook', subscriber.handle),
    subscribe(parts, catalogueTopic, 'catalogue-webhook', subscriber.handleCatalogue),
  ]
}
