import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import { drain } from '../http/drain.ts'
import type { HttpServer } from '../http/http-server.ts'
import { firstAddressOf, listenAtIpv6 } from '../loopback.ts'
import type { Service } from './service.ts'

const DRAIN_MS = 5_000

/** Listens for requests. `workersAt` is null if there are no further processes. */
export function createListener(server: HttpServer, config: Config, logger: Logger, workersAt: ((port: number) => Service) | null): Service {
  let workers: Service | null = null
  let second: Server | null = null
  // For `localhost` Fastify would open a second listener, which `drain` would not know.
  const host = firstAddressOf(config.host)
  const isShared = config.webConcurrency > 1
  return {
    async start() {
      if (isShared && workersAt !== null) await assertUnused(host, config.port)
      const address = { host, port: config.port, ...(isShared ? { reusePort: true } : {}) }
      await server.listen(address)
      second = await listenAtIpv6(server.server, { host: config.host, reusePort: isShared, mayBeTaken: config.port === 0 })
      logger.info(
        { addresses: [...server.addresses(), ...(second === null ? [] : [second.address()])] },
        `Storefront answers at ${config.baseUrl}`,
      )
      const { port } = server.server.address() as AddressInfo
      if (workersAt !== null) workers = workersAt(port)
      await workers?.start()
    },
    async stop() {
      // `/readyz` already answers 503. Proxies that have not read it yet still send requests.
      const delayed = server.server.listening ? delay(1_000 * config.drainDelaySeconds) : Promise.resolve()
      await Promise.all([workers?.stop(), delayed.then(() => drain(server, DRAIN_MS, second))])
    },
  }
}

/** Two stores that both allow others to share their port would do so unnoticed. */
async function assertUnused(host: string, port: number): Promise<void> {
  await using probe = createServer().listen(port, host)
  await once(probe, 'listening')
}
