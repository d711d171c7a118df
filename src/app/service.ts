import type { ReadinessCheck } from '../http/health.ts'
import type { NumberedMetrics, ProcessMetrics } from '../operations/merge-metrics.ts'
import type { SubscriberName } from '../subscribers.ts'
import type { Subscription } from '../topic/topic.ts'
import { withinMs } from '../within-ms.ts'

/** `stop` is idempotent and waits for work in flight. */
export interface Service {
  start(): Promise<void>
  stop(): Promise<void>
}

/** Starts services in order and stops them in reverse order. `afterwards` runs once, after the last stop. */
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

/** A process's report about itself. The values must be ones that a channel between processes can carry. */
export interface ProcessReport {
  failing: ReadinessCheck
  metrics: () => Promise<ProcessMetrics>
  states: () => Promise<SubscriberState[]>
}

/** The time limit of a check. Connecting to a hanging database takes longer. */
export const CHECK_MS = 4_000

/** Limits the time of a further process's check, because its parent would take a late answer for a hanging process. */
export function boundCheck(check: ReadinessCheck, ms = CHECK_MS): ReadinessCheck {
  const late = [{ name: 'process', reason: `its checks take longer than ${ms / 1_000} s: a dependency does not answer` }]
  return () => withinMs(ms, check(), late)
}

/** The state of a subscriber in a process that has its role. */
export type SubscriberState = readonly [SubscriberName, Subscription['state']]

/** The further processes of a store. */
export interface Workers extends Service {
  /** Names the failures of each process, and each process that has ended and not restarted. */
  findFailing: ReadinessCheck
  /** `metrics` is null where the process does not run or answer. */
  readMetrics: () => Promise<NumberedMetrics[]>
  /** Reads the subscribers' states. Omits a process that does not answer. */
  readStates: () => Promise<SubscriberState[]>
}
