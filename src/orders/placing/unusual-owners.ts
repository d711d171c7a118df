import type { Outcome } from './batch-decision.ts'

const REMEMBERED_MS = 10_000
/** The oldest are forgotten above it, which costs others an attempt. */
const MAX_OWNERS = 10_000

/**
 * Owners whose last order was lately not placed as a new one. Their next ones probably will not be, either, so the
 * usual state is not assumed for them.
 */
export class UnusualOwners {
  /** The time until which an owner counts, in order of time. */
  readonly #untilOf = new Map<string, number>()

  has(owner: string): boolean {
    return (this.#untilOf.get(owner) ?? 0) > performance.now()
  }

  note(owner: string, outcome: Outcome | undefined): void {
    this.#untilOf.delete(owner)
    // An order that waits for a row is as usual as the others.
    if (outcome === undefined || outcome.kind === 'blocked' || (outcome.kind === 'placed' && !outcome.order.isReplay)) return
    const now = performance.now()
    this.#untilOf.set(owner, now + REMEMBERED_MS)
    for (const [oldest, until] of this.#untilOf) {
      if (until > now && this.#untilOf.size <= MAX_OWNERS) return
      this.#untilOf.delete(oldest)
    }
  }
}
