import type { Queryable } from './pool.ts'

/**
 * The seconds by which this process's clock is ahead of `clock`. `before` and `after` are its readings around `clock`,
 * in milliseconds.
 */
export function clockDifference(before: number, clock: number, after: number): number {
  return (Math.max(before - clock, 0) - Math.max(clock - after, 0)) / 1_000
}

export async function readClockDifference(db: Queryable, now: () => number): Promise<number> {
  const before = now()
  const { rows } = await db.query<{ ms: number }>('select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms')
  return clockDifference(before, rows[0]?.ms ?? Number.NaN, now())
}
