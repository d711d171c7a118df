import type { FastifyRequest } from 'fastify'
import { AppError } from '../errors.ts'
import { every } from '../loop.ts'
import type { HttpServer } from './http-server.ts'
import { costOf, type LoadClass, REQUEST_COSTS, SHED_CLASSES, type ShedClass } from './request-cost.ts'

/** Something that a process has too little of. */
export interface PressureSignal {
  /** The last class that is refused because of it. */
  sheds: ShedClass
  /** 0: none. 1: as much as a store at its limit should have. */
  pressure: () => number
}

export interface LoadShedderOptions {
  signals?: readonly PressureSignal[]
}

export const TICK_MS = 25
/** A pause of the whole process is one late tick, not an overload. */
const MAX_STEP_MS = 250
/**
 * The lateness that a timer may have: a request waits for as long before it is read, and again after each answer of the
 * database.
 */
const MAX_LATE_MS = 25
/** A late timer after fewer requests is a busy machine, or one long request. */
export const FEW_REQUESTS = 64
/** This number of clients cannot overload the event loop: each has one request at a time. */
export const FEW_CONNECTIONS = 128
/** Seconds of Retry-After, least and most: at random, so that clients do not return together. */
const RETRY_AFTER: Record<ShedClass, readonly [number, number]> = { orders: [1, 3], lists: [2, 6], search: [4, 12] }

/**
 * Decides which requests an overloaded process refuses. The level rises while the greatest pressure is above 1 and falls while it is
 * below, by at most two classes in a second: at 0.5 half of the searches are refused, at 3 everything but the essential.
 */
export class LoadShedder {
  readonly #signals: readonly PressureSignal[]
  #level = 0
  /** Requests since the last step. */
  #requests = 0

  constructor({ signals = [] }: LoadShedderOptions = {}) {
    this.#signals = signals
  }

  /** Measures while the server listens. */
  watch(server: HttpServer): void {
    let end = () => {}
    server.addHook('onListen', (done) => {
      let lastAt = performance.now()
      end = every(
        TICK_MS,
        () => {
          const now = performance.now()
          const elapsedMs = now - lastAt
          lastAt = now
          server.server.getConnections((_error, connections = 0) => this.step(elapsedMs, connections))
        },
        { ref: false },
      )
      done()
    })
    server.addHook('onClose', (_server, done) => {
      end()
      done()
    })
  }

  /** Moves the level by what `elapsedMs` since the last step, and their lateness, make of it. */
  step(elapsedMs: number, connections: number): void {
    const level = this.#level
    const isBusy = this.#requests > FEW_REQUESTS && connections > FEW_CONNECTIONS
    const lateness = isBusy ? (elapsedMs - TICK_MS) / MAX_LATE_MS : 0
    this.#requests = 0
    // Requests that are never refused make timers late as well. They must not cost orders, which have a queue of their own.
    const signals: PressureSignal[] = [{ sheds: 'lists', pressure: () => lateness }, ...this.#signals]
    const refused = Math.min(Math.floor(level), SHED_CLASSES.length - 1)
    const pressures = signals.filter(({ sheds }) => SHED_CLASSES.indexOf(sheds) >= refused).map(({ pressure }) => pressure())
    const pressure = Math.max(0, ...pressures)
    const change = (2 * Math.min(pressure - 1, 1) * Math.min(Math.max(elapsedMs, 0), MAX_STEP_MS)) / 1_000
    this.#level = Math.min(Math.max(level + change, 0), SHED_CLASSES.length)
  }

  /** The refusal of a request whose class is currently refused. */
  refusalOf(request: FastifyRequest): AppError | undefined {
    this.#requests += 1
    if (this.#level === 0) return undefined
    const loadClass = loadClassOf(request)
    if (loadClass === 'essential' || Math.random() >= this.#level - SHED_CLASSES.indexOf(loadClass)) return undefined
    return overloaded(loadClass, 'The store has more requests at this moment than it can answer.')
  }
}

/** A refusal because of too much work of this class, with a Retry-After. */
export function overloaded(loadClass: ShedClass, message: string): AppError {
  const [least, most] = RETRY_AFTER[loadClass]
  const seconds = least + Math.floor(Math.random() * (most - least + 1))
  return new AppError('overloaded', message, { headers: { 'retry-after': String(seconds) } })
}

export function loadClassOf(request: FastifyRequest): LoadClass {
  return REQUEST_COSTS[costOf(request)].sheds
}
