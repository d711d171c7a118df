const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const
/** A terminal and npm both send a signal that was typed once, so two signals within this time count as one. */
const SAME_MS = 300
const FORCED_BY = 3

/**
 * Calls `onStop` at the first signal and `onForce` at the third. The second changes nothing, because requests in flight
 * are still being answered. Reports each signal to a parent with a channel, which then does not forward it. The end of
 * that parent is like the first signal.
 */
export function onStopSignal(onStop: () => void, onForce: () => void): void {
  // By itself the channel keeps no process alive.
  process.once('disconnect', onStop)
  process.channel?.unref()
  let count = 0
  let lastAt = Number.NEGATIVE_INFINITY
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      // The parent may have disconnected. Without a callback the error would end the process.
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
