import { createWebhookSealing, secretOf } from './app/secrets.ts'
import { type Command, type Terminal, withDatabase, withJobs } from './commands.ts'
import type { Config } from './config.ts'
import { formatTable } from './format-table.ts'
import { listDeliveries, redeliver, type WebhookStatus } from './pipeline/webhook/webhook-deliveries.ts'
import { addEndpoint, enableEndpoint, listEndpoints, removeEndpoint, rotateSecret } from './pipeline/webhook/webhook-endpoints.ts'
import { toPrintableUrl } from './pipeline/webhook/webhook-url.ts'

/** Adds an endpoint and prints its secret, once. `events` is a list with commas; `all` or nothing means every one. */
export function webhookAddCommand(config: Config, terminal: Terminal, url: string, events: string | undefined): Command {
  return withDatabase(config, terminal, async (pool) => {
    const sealing = createWebhookSealing(secretOf(config))
    const eventTypes = events === undefined || events === 'all' ? null : events.split(',').map((type) => type.trim())
    const added = await addEndpoint(pool, sealing, { url, eventTypes, isPrivateAllowed: config.isPrivateWebhookAllowed })
    terminal.out(`added the endpoint ${added.id}`)
    terminal.out(`secret: ${added.secret}`)
    terminal.out('It is not shown again.')
    return 0
  })
}

/** Prints the endpoints and their state. Of a URL its query is left out. */
export function webhookListCommand(config: Config, terminal: Terminal): Command {
  return withDatabase(config, terminal, async (pool) => {
    const rows = (await listEndpoints(pool)).map((endpoint) => [
      endpoint.id,
      toPrintableUrl(endpoint.url),
      endpoint.event_types?.join(',') ?? 'all',
      endpoint.disabled_at === null ? (endpoint.failing_since === null ? 'enabled' : 'failing') : 'disabled',
      (endpoint.disabled_at ?? endpoint.failing_since)?.toISOString() ?? '',
      endpoint.disabled_reason ?? '',
      endpoint.queued,
      endpoint.failed,
    ])
    terminal.out(formatTable({ columns: ['id', 'url', 'events', 'state', 'since', 'reason', 'queued', 'failed'], rows }))
    return 0
  })
}

/** Prints an endpoint's newest deliveries. */
export function webhookDeliveriesCommand(
  config: Config,
  terminal: Terminal,
  id: string,
  filter: { status: WebhookStatus | undefined; limit: number },
): Command {
  return withEndpoint(config, terminal, id, async (pool) => {
    const rows = (await listDeliveries(pool, { endpointId: id, ...filter })).map((delivery) => [
      delivery.event_id,
      delivery.type,
      delivery.status,
      delivery.attempts,
      delivery.queued_at.toISOString(),
      delivery.delivered_at?.toISOString() ?? '',
      delivery.last_error ?? '',
    ])
    terminal.out(formatTable({ columns: ['event_id', 'type', 'status', 'attempts', 'queued_at', 'delivered_at', 'last_error'], rows }))
    return 0
  })
}

/** Queues deliveries again: that of one event, or all that failed for null. Status 1 when there was no such delivery. */
export function webhookRedeliverCommand(config: Config, terminal: Terminal, id: string, eventId: string | null): Command {
  return withEndpoint(config, terminal, id, async (pool, { api: url }) => {
    const queued = await withJobs(url, terminal, (jobs) => redeliver(pool, jobs, id, eventId))
    if (queued === 0 && eventId !== null) {
      terminal.err(`the endpoint ${id} has no delivery of ${eventId}`)
      return 1
    }
    terminal.out(`${queued} ${queued === 1 ? 'event is' : 'events are'} delivered again`)
    return 0
  })
}

export function webhookEnableCommand(config: Config, terminal: Terminal, id: string): Command {
  return withEndpoint(config, terminal, id, async (pool) => {
    await enableEndpoint(pool, id)
    const { failed } = (await listEndpoints(pool)).find((endpoint) => endpoint.id === id) ?? { failed: 0 }
    terminal.out(`enabled the endpoint ${id}`)
    if (failed > 0) terminal.out(`${failed} failed deliveries wait for storefront webhook redeliver ${id} --all-failed`)
    return 0
  })
}

/** Gives an endpoint a new secret and prints it, once. */
export function webhookRotateCommand(config: Config, terminal: Terminal, id: string): Command {
  return withEndpoint(config, terminal, id, async (pool) => {
    const sealing = createWebhookSealing(secretOf(config))
    terminal.out(`secret: ${await rotateSecret(pool, sealing, id, new Date())}`)
    terminal.out('It is not shown again. For 24 hours webhooks are signed with the one before as well.')
    return 0
  })
}

export function webhookRemoveCommand(config: Config, terminal: Terminal, id: string): Command {
  return withEndpoint(config, terminal, id, async (pool) => {
    await removeEndpoint(pool, id)
    terminal.out(`removed the endpoint ${id}`)
    return 0
  })
}

/** Status 1 when there is no such endpoint. */
function withEndpoint(config: Config, terminal: Terminal, id: string, work: Parameters<typeof withDatabase>[2]): Command {
  return withDatabase(config, terminal, async (pool, addresses) => {
    const endpoints = await listEndpoints(pool)
    if (endpoints.some((endpoint) => endpoint.id === id)) return work(pool, addresses)
    terminal.err(`there is no endpoint ${id}`)
    return 1
  })
}
