/** Milliseconds of the one clock that all processes of a machine share, and that nobody sets. */
export function nowMs(): number {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000
}
