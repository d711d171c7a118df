import { isScope } from '../../src/http/scopes.ts'
import { addBuyer, addBuyers } from '../buyers.ts'
import type { Cleanup } from '../cleanup.ts'
import { startStore } from '../store.ts'
import { StallMeter } from './measure-stall.ts'
import { worstRequests } from './worst-requests.ts'

export interface RouteStalls {
  route: string
  bodyLimitBytes: number
  /** The number of different requests that were sent. */
  requests: number
  /** The longest of them all. */
  stallMs: number
  /** The request that caused it. */
  worst: string
  /** The answers, by status; 0 for none. */
  statuses: Record<number, number>
}

const MAX_ATTEMPTS = 3
/** Shorter stalls are not measured a second time. */
const SHORT_MS = 10

export interface MeasureOptions {
  /** Whether a route is measured, such as `POST /orders`. */
  only?: (route: string, index: number) => boolean
  isThorough?: boolean
  /** Called for each route as soon as it is measured. */
  onRoute?: (stalls: RouteStalls) => void
}

/**
 * Sends the worst that each limit lets in to every route of a store, and measures how long each request holds up the
 * event loop.
 */
export async function measureStalls(
  t: Cleanup,
  { only = () => true, isThorough = false, onRoute = () => {} }: MeasureOptions = {},
): Promise<RouteStalls[]> {
  const store = await startStore(t)
  await store.addProduct({ name: 'A lamp' })
  const { port } = store
  const meter = new StallMeter(t)
  const [customer, operator] = await Promise.all([addBuyer(store), addBuyer(store, 'admin')])
  const all: RouteStalls[] = []
  for (const [index, route] of store.server.listedRoutes.entries()) {
    const name = `${route.method} ${route.url}`
    if (!only(name, index)) continue
    const endsSession = name === 'POST /auth/logout' || name === 'DELETE /me'
    const spare = endsSession ? await addBuyers(store, 1_000) : []
    const nextToken = () => (endsSession ? spare.pop() : isScope(route.access ?? '') ? operator : customer)?.token ?? ''
    const stalls: RouteStalls = { route: name, bodyLimitBytes: route.bodyLimitBytes, requests: 0, stallMs: 0, worst: '', statuses: {} }
    // The first request compiles what the others run.
    for (const { bytes } of worstRequests(route, { nextToken, isThorough }).take(1))
      await meter.measure({ port, bytes: new Uint8Array(bytes) })
    for (const request of worstRequests(route, { nextToken, isThorough })) {
      let shortestMs = Number.POSITIVE_INFINITY
      for (let attempt = 1; attempt <= MAX_ATTEMPTS && shortestMs > SHORT_MS; attempt++) {
        const { status, stallMs } = await meter.measure({ port, bytes: new Uint8Array(request.bytes) })
        shortestMs = Math.min(shortestMs, stallMs)
        stalls.statuses[status] = (stalls.statuses[status] ?? 0) + 1
      }
      stalls.requests++
      if (shortestMs > stalls.stallMs) Object.assign(stalls, { stallMs: shortestMs, worst: request.name })
    }
    all.push(stalls)
    onRoute(stalls)
  }
  return all
}
