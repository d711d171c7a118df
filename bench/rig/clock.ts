/** Milliseconds of the monotonic clock that all processes of a machine share. */
export function nowMs(): number {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000
}
