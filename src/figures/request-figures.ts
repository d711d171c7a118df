import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { CountedRequests } from '../operations/request-times.ts'

/** Counts since the last time, of one method and route. */
interface Delta {
  method: string
  route: string
  requests: number
  clientErrors: number
  serverErrors: number
  buckets: number[]
}

export interface RequestFiguresOptions {
  pool: Pool
  /** All counts since the start of the process. */
  read: () => Iterable<CountedRequests>
  now: () => Date
}

/** Adds the requests of this process to the table of all processes. */
export class RequestFigures {
  readonly #options: RequestFiguresOptions
  #stored = new Map<string, CountedRequests>()
  #storedAt: Date

  constructor(options: RequestFiguresOptions) {
    this.#options = options
    this.#storedAt = options.now()
  }

  /** In one statement. When it fails, the next call adds these requests, too; when only its answer was lost, they count twice. */
  async store(): Promise<void> {
    const { pool, read, now } = this.#options
    const counted = new Map([...read()].map((series) => [`${series.method} ${series.route} ${series.statusClass}`, series]))
    const deltas = this.#deltas(counted)
    // Those of the minute that has just ended belong to it.
    const minute = this.#storedAt
    const until = now()
    if (deltas.length > 0) await addRequests(pool, minute, deltas)
    this.#stored = counted
    this.#storedAt = until
  }

  #deltas(counted: ReadonlyMap<string, CountedRequests>): Delta[] {
    const deltas = new Map<string, Delta>()
    for (const [key, { method, route, statusClass, count, buckets }] of counted) {
      const before = this.#stored.get(key)
      const requests = count - (before?.count ?? 0)
      if (requests === 0) continue
      const name = `${method} ${route}`
      const delta = deltas.get(name) ?? { method, route, requests: 0, clientErrors: 0, serverErrors: 0, buckets: buckets.map(() => 0) }
      deltas.set(name, delta)
      delta.requests += requests
      if (statusClass === 4) delta.clientErrors += requests
      if (statusClass === 5) delta.serverErrors += requests
      for (const [index, value] of buckets.entries()) {
        delta.buckets[index] = (delta.buckets[index] ?? 0) + value - (before?.buckets[index] ?? 0)
      }
    }
    return [...deltas.values()]
  }
}

async function addRequests(pool: Pool, at: Date, deltas: readonly Delta[]): Promise<void> {
  const rows = deltas
    // In one order, so that two processes cannot deadlock.
    .toSorted((a, b) => (`${a.method} ${a.route}` < `${b.method} ${b.route}` ? -1 : 1))
    .map(({ method, route, requests, clientErrors, serverErrors, buckets }) => ({
      ...{ method, route, requests, buckets },
      client_errors: clientErrors,
      server_errors: serverErrors,
    }))
  await pool.query(
    sql`insert into request_figures as known (minute, method, route, requests, client_errors, server_errors, buckets)
    select date_trunc('minute', ${at}::timestamptz), method, route, requests, client_errors, server_errors, buckets
    from json_to_recordset(${JSON.stringify(rows)}::json) as added
      (method text, route text, requests bigint, client_errors bigint, server_errors bigint, buckets bigint[])
    on conflict (minute, method, route) do update set
      requests = known.requests + excluded.requests,
      client_errors = known.client_errors + excluded.client_errors,
      server_errors = known.server_errors + excluded.server_errors,
      buckets = (
        select array_agg(coalesce(one, 0) + coalesce(other, 0) order by place)
        from unnest(known.buckets, excluded.buckets) with ordinality as bucket (one, other, place)
      )`,
  )
}
