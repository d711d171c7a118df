import { setImmediate } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import { CALLER, type Caller } from './caller.ts'
import { clientAddress, siteOf } from './client-address.ts'
import type { QuotaKey } from './fair-queue.ts'
import type { HttpServer } from './http-server.ts'
import { type CostClass, costOf, REQUEST_COSTS, type RequestCost, type ShedClass } from './request-cost.ts'
import { RequestLimiter } from './request-limiter.ts'

export interface AdmissionOptions {
  connections: number
  isByNetwork: boolean
}

// Every requested page is read again after a change of the catalogue.
const MAX_WAITING = 500
/** Larger bodies are parsed and validated one at a time, because 256 KiB take milliseconds. */
const SMALL_BODY_BYTES = 2_048
const BODY_WAIT_MS = 10_000
/** Parts of these requests take places, not the whole request. */
const IN_PARTS: ReadonlySet<CostClass> = new Set(['page', 'search', 'feed', 'export'])

/** Gives each class of requests its places. See docs/decisions/http-overload.md. */
export class Admission {
  readonly isByNetwork: boolean
  readonly #limiters: ReadonlyMap<CostClass, RequestLimiter>
  readonly #holders = new WeakSet<FastifyRequest>()
  readonly #bodies = new RequestLimiter({ loadClass: 'orders', places: 1, maxWaiting: MAX_WAITING, waitMs: BODY_WAIT_MS })

  constructor({ connections, isByNetwork }: AdmissionOptions) {
    this.isByNetwork = isByNetwork
    const limited = (Object.entries(REQUEST_COSTS) as [CostClass, RequestCost][]).flatMap(([name, { sheds, places, waitMs }]) => {
      const loadClass: ShedClass = sheds === 'essential' ? 'orders' : sheds
      if (places === null) return []
      return [[name, new RequestLimiter({ loadClass, places: places(connections), maxWaiting: MAX_WAITING, waitMs })] as const]
    })
    this.#limiters = new Map(limited)
  }

  /** Throws `overloaded`, and `Error` when the request already holds a place, which could block all. */
  async admit<T>(cost: CostClass, request: FastifyRequest, work: () => Promise<T>): Promise<T> {
    const limiter = this.#limiters.get(cost)
    if (limiter === undefined) return work()
    if (this.#holders.has(request)) throw new Error(`A request that holds a place asks for one of ${cost}.`)
    return limiter.admit(this.quotaKey(request), async () => {
      this.#holders.add(request)
      try {
        return await work()
      } finally {
        this.#holders.delete(request)
      }
    })
  }

  /** Each part waits for a place before it is read, so a client that reads slowly holds none. */
  async *inParts<T>(cost: CostClass, request: FastifyRequest, parts: AsyncGenerator<T>): AsyncGenerator<T> {
    try {
      for (;;) {
        const { value, done } = await this.admit(cost, request, () => parts.next())
        if (done === true) return
        yield value
      }
    } finally {
      await parts.return(undefined)
    }
  }

  /** Large bodies are parsed one at a time, networks and accounts in turns. Throws `overloaded`. */
  async takeBodyTurn(request: FastifyRequest, bytes: number): Promise<void> {
    if (bytes <= SMALL_BODY_BYTES) return
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    // Parsing and validation end before the event loop's next round, even when they refuse the body.
    const turn = () => {
      resolve()
      return setImmediate()
    }
    this.#bodies.admit(this.quotaKey(request), turn).catch(reject)
    await promise
  }

  fullnessOf(cost: CostClass): number {
    return this.#limiters.get(cost)?.fullness ?? 0
  }

  /** A guest counts for its network only: a new guest costs nothing, nor does another /64 of a data centre's /48. */
  quotaKey(request: FastifyRequest): QuotaKey {
    const caller = request.getDecorator<Caller | undefined>(CALLER) ?? null
    const address = this.isByNetwork ? clientAddress(request) : null
    const network = address === null ? [] : [siteOf(address)]
    if (caller === null || (caller.kind === 'account' && caller.role === 'guest' && this.isByNetwork)) return network
    return [caller.kind === 'key' ? caller.keyId : caller.userId, ...network]
  }

  /** Makes requests wait for a place once their caller is known and their body is valid. */
  guard(server: HttpServer): void {
    const guarded = new WeakSet<object>()
    server.addHook('onRoute', (route) => {
      const { handler } = route
      if (guarded.has(handler)) return
      const admission = this
      route.handler = function (request, reply) {
        const cost = costOf(request)
        const handle = async () => handler.call(this, request, reply)
        return IN_PARTS.has(cost) ? handle() : admission.admit(cost, request, handle)
      }
      guarded.add(route.handler)
    })
  }
}
