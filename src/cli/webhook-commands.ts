import { auditContextOfCommand } from '../activity/record-activity.ts'
import { openSecret } from '../app/secrets.ts'
import { createEncryption } from '../auth/store-secret.ts'
import { OperatorError } from '../errors.ts'
import { listDeliveries, redeliver, type WebhookStatus } from '../webhooks/webhook-deliveries.ts'
import {
  addEndpoint,
  enableEndpoint,
  type ListedEndpoint,
  listEndpoints,
  removeEndpoint,
  rotateSecret,
} from '../webhooks/webhook-endpoints.ts'
import { toPrintableUrl } from '../webhooks/webhook-url.ts'
import type { Contexts } from './command.ts'
import { printRows } from './format-table.ts'

type Context = Contexts['database']

/**
 * Adds an endpoint and prints its secret once. `events` are event types separated by commas; `all` or undefined means
 * every type.
 */
export async function add({ pool, addresses, config, terminal }: Context, url: string, events: string | undefined): Promise<number> {
  const encryption = createEncryption(await openSecret(pool, addresses.api, config), 'webhook secret')
  const eventTypes = events === undefined || events === 'all' ? null : events.split(',').map((type) => type.trim())
  const endpoint = { url, eventTypes, isPrivateAllowed: config.isPrivateWebhookAllowed }
  const added = await addEndpoint(pool, encryption, endpoint, auditContextOfCommand('webhook add'))
  terminal.out(`added the endpoint ${added.id}`)
  terminal.out(`secret: ${added.secret}`)
  terminal.out('It is not shown again.')
  return 0
}

export async function list({ pool, terminal }: Context, json: boolean): Promise<number> {
  const columns = ['id', 'url', 'events', 'state', 'since', 'reason', 'queued', 'failed']
  const rows = (await listEndpoints(pool)).map((endpoint) => [
    endpoint.id,
    toPrintableUrl(endpoint.url),
    endpoint.event_types?.join(',') ?? 'all',
    endpoint.disabled_at === null ? (endpoint.failing_since === null ? 'enabled' : 'failing') : 'disabled',
    (endpoint.disabled_at ?? endpoint.failing_since)?.toISOString() ?? null,
    endpoint.reason,
    endpoint.queued,
    endpoint.failed,
  ])
  return printRows(terminal, { columns, rows }, json)
}

export async function deliveries(
  { pool, terminal }: Context,
  id: string,
  filter: { status: WebhookStatus | undefined; limit: number },
  json: boolean,
): Promise<number> {
  await getEndpoint(pool, id)
  const columns = ['event_id', 'type', 'status', 'attempts', 'queued_at', 'delivered_at', 'last_error']
  const rows = (await listDeliveries(pool, { endpointId: id, ...filter })).map((delivery) => [
    delivery.event_id,
    delivery.type,
    delivery.status,
    delivery.attempts,
    delivery.queued_at.toISOString(),
    delivery.delivered_at?.toISOString() ?? null,
    delivery.last_error,
  ])
  return printRows(terminal, { columns, rows }, json)
}

/** Redelivers events to an endpoint; `eventId` null means all failed deliveries. */
export async function redeliverEvents({ pool, terminal }: Context, id: string, eventId: string | null): Promise<number> {
  await getEndpoint(pool, id)
  const queued = await redeliver(pool, id, eventId, { auditContext: auditContextOfCommand('webhook redeliver') })
  if (queued === 0 && eventId !== null) {
    throw new OperatorError(`the endpoint ${id} has no delivery of ${eventId}; storefront webhook deliveries ${id} shows them`)
  }
  terminal.out(`${queued} ${queued === 1 ? 'event is' : 'events are'} delivered again`)
  return 0
}

export async function enable({ pool, terminal }: Context, id: string): Promise<number> {
  await getEndpoint(pool, id)
  await enableEndpoint(pool, id, auditContextOfCommand('webhook enable'))
  const { failed } = await getEndpoint(pool, id)
  terminal.out(`enabled the endpoint ${id}`)
  if (failed > 0) terminal.out(`${failed} failed deliveries wait for storefront webhook redeliver ${id} --all-failed`)
  return 0
}

/** Replaces an endpoint's secret, and prints the new one once. */
export async function rotate({ pool, addresses, config, terminal }: Context, id: string): Promise<number> {
  await getEndpoint(pool, id)
  const encryption = createEncryption(await openSecret(pool, addresses.api, config), 'webhook secret')
  terminal.out(`secret: ${await rotateSecret(pool, encryption, id, new Date(), auditContextOfCommand('webhook rotate'))}`)
  terminal.out('It is not shown again. For 24 hours webhooks are also signed with the previous secret.')
  return 0
}

export async function remove({ pool, terminal }: Context, id: string): Promise<number> {
  await getEndpoint(pool, id)
  await removeEndpoint(pool, id, auditContextOfCommand('webhook remove'))
  terminal.out(`removed the endpoint ${id}`)
  return 0
}

async function getEndpoint(pool: Context['pool'], id: string): Promise<ListedEndpoint> {
  const endpoint = (await listEndpoints(pool)).find((listed) => listed.id === id)
  if (endpoint === undefined) throw new OperatorError(`there is no endpoint ${id}; storefront webhook list shows them`)
  return endpoint
}
