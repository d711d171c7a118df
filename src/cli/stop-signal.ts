const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const
/** Signals that come so close together are one: a terminal and npm both send what was typed once. */
const SAME_MS = 300
const FORCED_BY = 3

/**
 * Calls `onStop` at the first signal to stop and `onForce` at the third. The second changes nothing: what is being answered is answered.
 * Tells the parent which signals arrived, so that it does not send them again.
 */
export function onStopSignal(onStop: () => void, onForce: () => void): void {
  let count = 0
  let lastAt = Number.NEGATIVE_INFINITY
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      process.send?.(signal)
      const isRepeated = performance.now() - lastAt < SAME_MS
      lastAt = performance.now()
      if (isRepeated) return
      count += 1
      if (count === 1) onStop()
      if (count === FORCED_BY) onForce()
    })
  }
}
