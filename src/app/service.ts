/** Something that runs until it is stopped. `stop` is idempotent and waits for work in hand. */
export interface Service {
  start(): Promise<void>
  stop(): Promise<void>
}

/** Services that start one after the other and stop in the opposite order; `afterwards` runs once, when all have stopped. */
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
