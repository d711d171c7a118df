import type { Queryable } from './pool.ts'

/** The largest difference between a process's clock and the database's. Access tokens may be ahead by as much. */
export const MAX_CLOCK_DIFFERENCE_SECONDS = 300

/**
 * The seconds by which this process's clock is ahead of `clock`. `before` and `after` are its readings around `clock`,
 * in milliseconds.
 */
export function clockDifference(before: number, clock: number, after: number): number {
  return (Math.max(before - clock, 0) - Math.max(clock - after, 0)) / 1_000
}

export async function readClockDifference(db: Queryable, now: () => number): Promise<number> {
  const before = now()
  return clockDifference(before, (await readTime(db)).getTime(), now())
}

/** The time of the database, which is the same for all processes. */
export async function readTime(db: Queryable): Promise<Date> {
  const { rows } = await db.query<{ time: Date }>('select clock_timestamp() as time')
  return rows[0]?.time ?? new Date(Number.NaN)
}
