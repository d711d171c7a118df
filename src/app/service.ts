/** A long-running part of the process. `stop` is idempotent and waits for work in flight. */
export interface Service {
  start(): Promise<void>
  stop(): Promise<void>
}

/** Starts services one after the other and stops them in reverse order; `afterwards` runs once, after the last stop. */
export function inOrder(services: readonly Service[], afterwards: () => Promise<void> = async () => {}): Service {
  let stopped: Promise<void> | null = null
  return {
    async start() {
      for (const service of services) await service.start()
    },
    stop() {
      stopped ??= (async () => {
        for (const service of services.toReversed()) await service.stop()
        await afterwards()
      })()
      return stopped
    },
  }
}
