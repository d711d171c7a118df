const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const
/**
 * The time within which two signals count as one, because a terminal and npm both send a signal that was typed once.
 */
const SAME_MS = 300
const FORCED_BY = 3

/**
 * Calls `onStop` at the first signal and `onForce` at the third. The second changes nothing, because requests in flight
 * are still being answered. Reports each signal to the parent, which then does not forward it.
 */
export function onStopSignal(onStop: () => void, onForce: () => void): void {
  let count = 0
  let lastAt = Number.NEGATIVE_INFINITY
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      // The callback is needed because the parent may have disconnected. Without it, the error would end the process.
      process.send?.(signal, undefined, undefined, () => {})
      const isRepeated = performance.now() - lastAt < SAME_MS
      lastAt = performance.now()
      if (isRepeated) return
      count += 1
      if (count === 1) onStop()
      if (count === FORCED_BY) onForce()
    })
  }
}
