import type { FastifyRequest } from 'fastify'
import { CALLER, type Caller } from './caller.ts'
import { clientAddress, networkOf } from './client-address.ts'
import type { HttpServer } from './http-server.ts'
import type { ShedClass } from './load-class.ts'
import { type CostClass, costOf, REQUEST_COSTS, type RequestCost } from './request-cost.ts'
import { type CountedFor, RequestLimiter } from './request-limiter.ts'

export interface AdmissionOptions {
  /** Connections to the database that all requests share. */
  connections: number
  /** Whether requests count for their network. */
  isByNetwork: boolean
}

// After a change of the catalogue every requested page is read again.
const MAX_WAITING = 500
/** Classes of which parts of a request take a place, and not the whole of it. */
const IN_PARTS: ReadonlySet<CostClass> = new Set(['page', 'search', 'feed', 'export'])

/** Gives each class of requests its places. See docs/decisions/0258-overload.md. */
export class Admission {
  readonly isByNetwork: boolean
  readonly #limiters: ReadonlyMap<CostClass, RequestLimiter>

  constructor({ connections, isByNetwork }: AdmissionOptions) {
    this.isByNetwork = isByNetwork
    const limited = (Object.entries(REQUEST_COSTS) as [CostClass, RequestCost][]).flatMap(([name, { sheds, places, waitMs }]) => {
      const loadClass: ShedClass = sheds === 'essential' ? 'orders' : sheds
      if (places === null) return []
      return [[name, new RequestLimiter({ loadClass, places: places(connections), maxWaiting: MAX_WAITING, waitMs })] as const]
    })
    this.#limiters = new Map(limited)
  }

  /** Runs a request, or a part of it, when its class has a place. Throws `overloaded`. */
  admit<T>(cost: CostClass, request: FastifyRequest, work: () => Promise<T>): Promise<T> {
    const limiter = this.#limiters.get(cost)
    return limiter === undefined ? work() : limiter.admit(this.countedFor(request), work)
  }

  /** The parts of an answer, each of which waits for a place before it is read. A client that reads slowly holds none. */
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

  /** The share of the queue of a class that waits: see `RequestLimiter`. */
  fullnessOf(cost: CostClass): number {
    return this.#limiters.get(cost)?.fullness ?? 0
  }

  /** A guest counts for the network alone: a new guest costs nothing. */
  countedFor(request: FastifyRequest): CountedFor {
    const caller = request.getDecorator<Caller | undefined>(CALLER) ?? null
    const network = this.isByNetwork ? [networkOf(clientAddress(request))] : []
    if (caller === null || (caller.kind === 'account' && caller.role === 'guest' && this.isByNetwork)) return network
    return [caller.kind === 'key' ? caller.keyId : caller.userId, ...network]
  }

  /** Lets each request to the routes that are added from now on wait for a place, after its caller is known and its body is valid. */
  guard(server: HttpServer): void {
    // HEAD has the handler of its GET.
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
