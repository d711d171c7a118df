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

/** Stops in reverse order. `afterwards` runs once, after the last stop. */
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

/** What a process tells about itself. The values are those that a channel between processes carries. */
export interface ProcessReport {
  failing: ReadinessCheck
  metrics: () => Promise<ProcessMetrics>
  states: () => Promise<SubscriberState[]>
}

/** Connecting to a database that hangs takes longer. */
export const CHECK_MS = 4_000

/** Bounds the check of a further process: its parent would take it for one that hangs. */
export function boundCheck(check: ReadinessCheck, ms = CHECK_MS): ReadinessCheck {
  const late = [{ name: 'process', reason: `its checks take longer than ${ms / 1_000} s: a dependency does not answer` }]
  return () => withinMs(ms, check(), late)
}

/** The state of a subscriber in a process that has its role. */
export type SubscriberState = readonly [SubscriberName, Subscription['state']]

/** The further processes of a store. */
export interface Workers extends Service {
  /** Names what fails in each, and each that has ended and not started again. */
  findFailing: ReadinessCheck
  /** `metrics` is null where the process does not run or answer. */
  readMetrics: () => Promise<NumberedMetrics[]>
  /** Omits a process that does not answer. */
  readStates: () => Promise<SubscriberState[]>
}
