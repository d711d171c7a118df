import type { Logger } from 'pino'
import { loggableError } from '../db/loggable-error.ts'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'

/** What is read of the pipeline, once a minute. */
export const PIPELINE_FIGURES = [
  'change_stream_lag_bytes',
  'email_lag_events',
  'webhook_lag_events',
  'lake_lag_events',
  'lake_delay_seconds',
  'mail_queue_length',
  'webhook_queue_length',
] as const
export type PipelineFigure = (typeof PIPELINE_FIGURES)[number]

/** Null while it is unknown, as for a subscriber that was never active. */
export type PipelineReaders = Partial<Record<PipelineFigure, () => Promise<number | null>>>

/** Reads what waits and stores it for the current minute. A reader that fails leaves a gap of its own only. */
export async function storePipelineFigures(pool: Pool, readers: PipelineReaders, now: Date, logger: Logger): Promise<void> {
  const values: { name: string; value: number }[] = []
  for (const [name, read] of Object.entries(readers)) {
    try {
      const value = await read()
      if (value !== null) values.push({ name, value })
    } catch (error) {
      logger.warn({ err: loggableError(error), figure: name }, 'a figure of the pipeline could not be read; it is missing in this minute')
    }
  }
  if (values.length === 0) return
  await pool.query(
    sql`insert into pipeline_figures (minute, name, value)
    select date_trunc('minute', ${now}::timestamptz), name, value
    from json_to_recordset(${JSON.stringify(values)}::json) as read (name text, value float8)
    on conflict (minute, name) do update set value = excluded.value`,
  )
}
