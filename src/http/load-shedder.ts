import type { Socket } from 'node:net'
import type { FastifyRequest } from 'fastify'
import { AppError } from '../errors.ts'
import { Loop } from '../loop.ts'
import type { HttpServer } from './http-server.ts'
import { costOf, type LoadClass, REQUEST_COSTS, SHED_CLASSES, type ShedClass } from './request-cost.ts'

export interface PressureSignal {
  /** The last class that this signal refuses. */
  sheds: ShedClass
  /** Returns the pressure: 0 is none, and 1 is the limit. */
  pressure: () => number
}

export interface LoadShedderOptions {
  signals?: readonly PressureSignal[]
}

export const TICK_MS = 25
/** A pause of the whole process is one late tick, not an overload. */
const MAX_STEP_MS = 250
/** The level stays at 0 without requests and pressure. The next request ends this pause. */
const REST_MS = 60_000
/** A request waits for this time before it is read, and again after each answer of the database. */
const MAX_LATE_MS = 25
/** After so few requests, a late timer means a busy machine or one long request. */
export const FEW_REQUESTS = 64
/** So few clients cannot overload the event loop, because each has one request at a time. */
export const FEW_CONNECTIONS = 128
/** So few connections have at most as many requests in progress, such as those of one client and of a health check. */
export const ALONE = 2
/** Random seconds of Retry-After, so clients do not return together. */
const RETRY_AFTER: Record<ShedClass, readonly [number, number]> = { orders: [1, 3], lists: [2, 6], search: [4, 12] }

/** The level changes by at most two classes a second. At 0.5 half of the searches are refused. */
export class LoadShedder {
  readonly #signals: readonly PressureSignal[]
  #level = 0
  #connections = 0
  #requests = 0
  #endRest: (() => void) | null = null

  constructor({ signals = [] }: LoadShedderOptions = {}) {
    this.#signals = signals
  }

  /** An idle server is not measured, because the ticks would be most of its cost. */
  watch(server: HttpServer): void {
    let lastAt = performance.now()
    // Node.js counts a connection at the server that accepted it, which for `[::1]` is another one.
    let connections = 0
    server.server.on('connection', (socket: Socket) => {
      connections += 1
      socket.once('close', () => {
        connections -= 1
      })
    })
    const loop = new Loop({
      ...{ firstMs: TICK_MS, everyMs: TICK_MS, ref: false },
      work: async () => {
        const now = performance.now()
        const elapsedMs = now - lastAt
        lastAt = now
        const canRest = this.step(elapsedMs, connections)
        if (canRest) this.#endRest = endRest
        return canRest ? REST_MS : TICK_MS
      },
      onFailure(error) {
        throw error
      },
    })
    const endRest = () => {
      lastAt = performance.now()
      loop.wake()
    }
    server.addHook('onListen', () => {
      lastAt = performance.now()
      return loop.start()
    })
    server.addHook('onClose', () => loop.stop())
  }

  step(elapsedMs: number, connections: number): boolean {
    const level = this.#level
    const requests = this.#requests
    this.#requests = 0
    this.#connections = connections
    const isBusy = requests > FEW_REQUESTS && connections > FEW_CONNECTIONS
    const lateness = isBusy ? (elapsedMs - TICK_MS) / MAX_LATE_MS : 0
    // Essential requests make timers late too. That must not refuse orders, which have their own queue.
    const signals: PressureSignal[] = [{ sheds: 'lists', pressure: () => lateness }, ...this.#signals]
    const refused = Math.min(Math.floor(level), SHED_CLASSES.length - 1)
    const pressures = signals.filter(({ sheds }) => SHED_CLASSES.indexOf(sheds) >= refused).map(({ pressure }) => pressure())
    const pressure = Math.max(0, ...pressures)
    const change = (2 * Math.min(pressure - 1, 1) * Math.min(Math.max(elapsedMs, 0), MAX_STEP_MS)) / 1_000
    this.#level = Math.min(Math.max(level + change, 0), SHED_CLASSES.length)
    return requests === 0 && pressure === 0 && this.#level === 0
  }

  refusalOf(request: FastifyRequest): AppError | undefined {
    this.#requests += 1
    this.#endRest?.()
    this.#endRest = null
    if (this.#level === 0) return undefined
    const loadClass = loadClassOf(request)
    if (loadClass === 'essential' || Math.random() >= this.#level - SHED_CLASSES.indexOf(loadClass)) return undefined
    // A refusal would free nothing for others, and the pressure may be that of a busy machine.
    if (this.#connections <= ALONE) return undefined
    return overloaded(loadClass, 'The store has more requests at this moment than it can answer.')
  }
}

export function overloaded(loadClass: ShedClass, message: string): AppError {
  const [least, most] = RETRY_AFTER[loadClass]
  const seconds = least + Math.floor(Math.random() * (most - least + 1))
  return new AppError('overloaded', message, { headers: { 'retry-after': String(seconds) } })
}

export function loadClassOf(request: FastifyRequest): LoadClass {
  return REQUEST_COSTS[costOf(request)].sheds
}
