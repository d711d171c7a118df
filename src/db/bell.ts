import type pg from 'pg'

/** Wakes a loop that waits: it rings when somebody notifies a channel that `client` listens to, and when the connection breaks. */
export interface Bell {
  readonly isBroken: boolean
  /** Forgets that it has rung. */
  silence(): void
  /** Until it rings, `ms` have passed or `signal` aborts; at once when it has rung since it was silenced. */
  wait(ms: number, signal: AbortSignal): Promise<void>
}

export function bellOf(client: pg.Client): Bell {
  let wake = () => {}
  let hasRung = false
  let isBroken = false
  const ring = () => {
    hasRung = true
    wake()
  }
  const ringForTheLastTime = () => {
    isBroken = true
    ring()
  }
  client.on('notification', ring)
  client.on('error', ringForTheLastTime)
  client.on('end', ringForTheLastTime)
  return {
    get isBroken() {
      return isBroken
    },
    silence() {
      hasRung = false
    },
    async wait(ms, signal) {
      if (hasRung || isBroken || signal.aborted) return
      const { promise, resolve } = Promise.withResolvers<void>()
      const timer = setTimeout(resolve, ms)
      wake = resolve
      signal.addEventListener('abort', resolve as () => void, { once: true })
      await promise
      clearTimeout(timer)
      signal.removeEventListener('abort', resolve as () => void)
    },
  }
}
