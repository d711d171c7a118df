import type { DeliveryFilter } from './pipeline/email/email-deliveries.ts'
import type { ReplayArguments } from './pipeline-commands.ts'

/** The command line cannot be understood. `command`: the one that is meant, where that is known. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  readonly command: string | undefined

  constructor(message: string, command?: string) {
    super(message)
    this.command = command
  }
}

export function readFormat(value: string | undefined): 'ndjson' | 'csv' | undefined {
  if (value === undefined || value === 'ndjson' || value === 'csv') return value
  throw new UsageError('--format must be ndjson or csv')
}

export function readMailFilter({ status, order, limit }: { status?: string; order?: string; limit?: string }): DeliveryFilter {
  if (order !== undefined && !ORDER.test(order)) throw new UsageError('--order must be an id or a number of an order')
  return { status: readStatus(status, ['queued', 'sent', 'failed']), order, limit: readLimit(limit) }
}

export function readDate(value: string | undefined): string | undefined {
  if (value === undefined || (/^\d{4}-\d{2}-\d{2}$/.test(value) && !Number.isNaN(Date.parse(value)))) return value
  throw new UsageError('--date must be a day such as 2026-03-01')
}

export function readStatus<T extends string>(value: string | undefined, known: readonly T[]): T | undefined {
  const status = known.find((name) => name === value)
  if (value !== undefined && status === undefined) throw new UsageError(`--status must be one of ${known.join(', ')}`)
  return status
}

const ORDER = /^(\d{1,18}|[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12})$/i
const DEFAULT_LIMIT = 50
const MAX_LIMIT = 10_000

export function readLimit(value: string | undefined): number {
  if (value === undefined) return DEFAULT_LIMIT
  const limit = /^\d{1,9}$/.test(value) ? Number(value) : 0
  if (limit < 1 || limit > MAX_LIMIT) throw new UsageError(`--limit must be a whole number from 1 to ${MAX_LIMIT}`)
  return limit
}

const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i

export function readReplayArguments({
  since,
  order,
  subscriber,
}: {
  since?: string
  order?: string
  subscriber?: string
}): ReplayArguments {
  if (order !== undefined && !UUID.test(order)) throw new UsageError('--order must be the id of an order')
  const time = since === undefined ? undefined : new Date(since)
  if (time !== undefined && Number.isNaN(time.getTime())) throw new UsageError('--since must be a time such as 2026-03-01T12:00:00Z')
  return { since: time, orderId: order?.toLowerCase(), subscriber }
}
