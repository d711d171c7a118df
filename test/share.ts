const SHARES = 3
const DAY_MS = 86_400_000

/**
 * A run tries a third of what could be tried at very many places, such as before each statement, and another third
 * each day; all with EVERY_SHARE=1. See docs/decisions/tests.md.
 */
export const SHARE =
  process.env.EVERY_SHARE === '1' ? { first: 0, step: 1 } : { first: Math.floor(Date.now() / DAY_MS) % SHARES, step: SHARES }

export function isInShare(index: number): boolean {
  return index % SHARE.step === SHARE.first
}
