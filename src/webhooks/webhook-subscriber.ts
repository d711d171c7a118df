import type { Logger } from 'pino'
import type { Encryption } from '../auth/store-secret.ts'
import type { CatalogueEvent } from '../catalogue/catalogue-event.ts'
import { readTime } from '../db/clock.ts'
import type { Pool } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { type Attempt, type Taken, waitForSecret } from '../deliveries/delivery-kind.ts'
import type { DeliveryQueue } from '../deliveries/delivery-queue.ts'
import type { DeliveryWorker, WorkOptions } from '../deliveries/delivery-worker.ts'
import type { Tracing } from '../operations/tracing.ts'
import { isImported } from '../orders/events.ts'
import { removeLostEvents } from '../topic/incarnations.ts'
import type { Fence, MessageHandler, TopicEvent } from '../topic/topic.ts'
import { readTraceparent, traceField } from '../traceparent.ts'
import { pairWanted } from './wanted-events.ts'
import {
  insertDeliveries,
  pauseAsked,
  readRetryAfter,
  TEST_EVENT_TYPE,
  WEBHOOK_DELIVERIES,
  type WebhookToPost,
} from './webhook-deliveries.ts'
import {
  clearEndpointFailing,
  DISABLED,
  disableEndpoint,
  hasCatalogueEndpoints,
  hasEndpoints,
  lockRecipients,
  recordEndpointFailing,
} from './webhook-endpoints.ts'
import type { WebhookSender } from './webhook-sender.ts'
import { signWebhook } from './webhook-signature.ts'

// A waiting post costs a socket. Half of the places are left to endpoints that are known to work.
const WORK: WorkOptions = { places: 256, share: { perReceiver: 4, suspects: 128, slowMs: 5_000 } }
const PATIENCE_SECONDS = 3 * 86_400
/** Fewer than any receiver gets in three days. A machine that was suspended for days must not give up at once. */
const LEAST_ATTEMPTS = 12
const GONE = 410
// Too many requests, and service unavailable: the statuses whose `Retry-After` counts.
const BUSY = [429, 503]
const REASON_MAX_LENGTH = 300
const UNDECRYPTABLE = "the endpoint's secret cannot be decrypted with this STOREFRONT_SECRET: nothing was sent to the receiver"

export interface WebhookSubscriberOptions {
  pool: Pool
  deliveries: DeliveryQueue
  /** The sender. `stop` closes it. */
  sender: WebhookSender
  encryption: Encryption
  logger: Logger
  now: () => Date
  /** Called with the outcome of each attempt. */
  onTried?: (outcome: 'delivered' | 'retried' | 'failed') => void
  /** It is null if traces are off. */
  tracing?: Tracing | null
}

/**
 * Posts each order and catalogue event to every endpoint that wants it and was added before it. Each is delivered at
 * least once, in no fixed order. The handlers only queue, so a slow endpoint delays nothing else.
 */
export function createWebhookSubscriber(options: WebhookSubscriberOptions) {
  const { pool, deliveries, sender, encryption, logger, now, onTried, tracing } = options
  let worker: DeliveryWorker<WebhookToPost> | undefined
  /** Endpoints for which the warning was logged. */
  const undecryptable = new Set<string>()

  async function deliver(webhook: Taken<WebhookToPost>, { report, record }: Attempt): Promise<void> {
    if (webhook.is_disabled) return record({ to: 'failed', reason: DISABLED })
    const secrets = secretsOf(webhook).map(encryption.decrypt)
    // The current secret decides. A previous secret may be encrypted with an old STOREFRONT_SECRET.
    if (secrets[0] === null) {
      if (!undecryptable.has(webhook.endpoint_id)) logger.warn({ endpoint: webhook.endpoint_id }, UNDECRYPTABLE)
      undecryptable.add(webhook.endpoint_id)
      return record(waitForSecret(UNDECRYPTABLE))
    }
    undecryptable.delete(webhook.endpoint_id)
    const known = secrets.filter((secret) => secret !== null)
    const traceparent = traceparentOfBody(webhook)
    const span = tracing?.start('webhook', traceparent, { 'messaging.message.id': webhook.event_id })
    const refusal = await post(webhook, known, span?.traceparent ?? traceparent)
    // A receiver that refuses an unknown type may accept other events, so a refused test is not a failure.
    const isTest = webhook.type === TEST_EVENT_TYPE
    if (refusal === null || !isTest) report(refusal === null ? 'well' : 'failing')
    await (refusal === null
      ? succeed(webhook, record)
      : isTest
        ? record({ to: 'failed', reason: refusal.reason })
        : fail(webhook, refusal, record))
    span?.end(refusal === null ? null : 'refused')
  }

  /** The secrets that sign now, the newest first. */
  function secretsOf({ sealed_secret, previous_sealed_secret, previous_secret_until }: WebhookToPost): string[] {
    const isPreviousValid = previous_sealed_secret !== null && previous_secret_until !== null && previous_secret_until > now()
    return isPreviousValid ? [sealed_secret, previous_sealed_secret] : [sealed_secret]
  }

  async function succeed({ endpoint_id }: WebhookToPost, record: Attempt['record']): Promise<void> {
    await record({ to: 'delivered' })
    await clearEndpointFailing(pool, endpoint_id)
    onTried?.('delivered')
  }

  /** Posts the webhook. Returns null if the receiver accepted it, otherwise the refusal. */
  async function post(
    { event_id, url, body }: WebhookToPost,
    secrets: readonly string[],
    parent: string | undefined,
  ): Promise<Refusal | null> {
    const { hostname, port, protocol } = new URL(url)
    const address = { 'server.address': hostname, 'server.port': Number(port) || (protocol === 'https:' ? 443 : 80) }
    const span = tracing?.start('post', parent, address)
    const traceparent = span?.traceparent ?? parent
    const headers = { ...signWebhook(secrets, event_id, now(), body), ...(traceparent === undefined ? {} : { traceparent }) }
    try {
      const { status, retryAfter } = await sender.send(url, headers, body)
      span?.end(status >= 400 ? String(status) : null, { 'http.response.status_code': status })
      if (status >= 200 && status < 300) return null
      const pauseSeconds = BUSY.includes(status) && retryAfter !== null ? readRetryAfter(retryAfter, now()) : null
      return { reason: `answered ${status}`, isGone: status === GONE, pauseSeconds }
    } catch (error) {
      span?.end(error)
      return { reason: describe(error as Error), isGone: false, pauseSeconds: null }
    }
  }

  async function fail(webhook: Taken<WebhookToPost>, { reason, isGone, pauseSeconds }: Refusal, record: Attempt['record']): Promise<void> {
    const { endpoint_id: endpoint, url, event_id: event, attempts: attempt, tried_for_seconds } = webhook
    const at = now()
    const failingSince = await recordEndpointFailing(pool, { id: endpoint, url }, at, reason)
    const isOver = (seconds: number) => attempt >= LEAST_ATTEMPTS && seconds >= PATIENCE_SECONDS
    const isFinal = isGone || isOver(tried_for_seconds)
    const pause = pauseSeconds === null ? {} : { seconds: pauseAsked(attempt, pauseSeconds) }
    await record(isFinal ? { to: 'failed', reason } : { to: 'retry', reason, ...pause })
    onTried?.(isFinal ? 'failed' : 'retried')
    logger.info({ endpoint, event, ...traceField(traceparentOfBody(webhook)), attempt, reason }, 'a webhook was not taken')
    if (isGone) await disable(webhook, 'it answered 410 Gone')
    else if (failingSince !== null && isOver((at.getTime() - failingSince.getTime()) / 1_000))
      await disable(webhook, `nothing was taken for three days: ${reason}`)
  }

  async function disable({ endpoint_id: endpoint, url }: WebhookToPost, reason: string): Promise<void> {
    if (await disableEndpoint(pool, endpoint, reason, now(), { url })) logger.warn({ endpoint, reason }, 'a webhook endpoint was disabled')
    // Waiting deliveries of this process must not begin.
    worker?.beat()
  }

  const handle: MessageHandler = async (messages, _signal, fence) => {
    if (!(await hasEndpoints(pool))) return
    const known = await removeLostEvents(pool, messages)
    await queue(
      known.map(({ event }) => event).filter((event) => !isImported(event)),
      fence,
    )
  }

  const handleCatalogue: MessageHandler<CatalogueEvent> = async (messages, _signal, fence) => {
    if (!(await hasCatalogueEndpoints(pool))) return
    await queue(
      messages.map(({ event }) => event),
      fence,
    )
  }

  async function queue(repeated: readonly TopicEvent[], fence: Fence | undefined): Promise<void> {
    const events = [...new Map(repeated.map((event) => [event.id, event])).values()]
    const { endpoints, tooOld } = await inTransaction(pool, async (tx) => {
      await fence?.check(tx)
      // By the clock of a process that is ahead, events would be too old, and nothing would post them later.
      const time = await readTime(tx)
      const { pairs, tooOld } = pairWanted(await lockRecipients(tx), events, time)
      return { endpoints: await insertDeliveries(tx, pairs, time), tooOld }
    })
    if (tooOld > 0) logger.warn({ events: tooOld }, 'events older than 30 days are not posted any more')
    worker?.wake(endpoints)
  }

  return {
    handle,
    handleCatalogue,
    async start(): Promise<void> {
      worker ??= deliveries.work<WebhookToPost>(WEBHOOK_DELIVERIES, { ...WORK, breakOff: () => sender.close() }, deliver)
    },
    /** Waits at most five seconds for deliveries in flight. Idempotent, safe before start. */
    async stop(): Promise<void> {
      await worker?.stop()
      sender.close()
    },
  }
}

/** Why a receiver did not accept a webhook. */
interface Refusal {
  reason: string
  isGone: boolean
  /** The pause that the receiver asked for with `Retry-After`. Null if it asked for none. */
  pauseSeconds: number | null
}

/** The trace context of the event. Undefined if it is missing or invalid. */
function traceparentOfBody({ body }: WebhookToPost): string | undefined {
  const { traceparent } = JSON.parse(body) as Partial<TopicEvent>
  return readTraceparent(traceparent) ?? undefined
}

/** A short reason on one line. It contains no URL, because errors of Node.js name only hosts and addresses. */
function describe({ message }: Error): string {
  return message.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').slice(0, REASON_MAX_LENGTH)
}
