import type { Schemas } from './api.ts'
import { create, timeElement } from './dom.ts'
import { dayOf } from './times.ts'

export type AdminOrder = Schemas['AdminOrder']
export type OrderStatus = Schemas['OrderStatus']

/** The address of an order in the console; `filters` are those of the list that it goes back to. */
export function orderAddress(orderId: string, filters = new URLSearchParams()): string {
  const parameters = new URLSearchParams(filters)
  parameters.set('order', orderId)
  parameters.delete('event')
  return `#orders?${parameters}`
}

const ACTORS = { admin: 'operator', key: 'key', customer: 'customer' } as const

/** Who made a change: an operator and a customer by their id. */
export function actorText({ type, id }: Schemas['StatusChange']['actor'] | Schemas['OrderNote']['author']): string {
  if (type === 'system') return 'the store'
  return `${ACTORS[type]} ${id ?? ''}`.trim()
}

/** A name for moves that are sent from here: the same move with the same reference is made once, however often it is sent. */
export function newReference(): string {
  const digits = [...crypto.getRandomValues(new Uint8Array(5))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return `console-${dayOf(new Date())}-${digits}`
}

/** What a step took: `120 ms`, `3.2 s`, `2 min 5 s`, `1 h 3 min`, `2 d 4 h`. Clocks of two machines can differ, so it is never below 0. */
function durationText(from: string, to: string): string {
  const ms = Math.max(0, Date.parse(to) - Date.parse(from))
  if (ms < 1_000) return `${ms} ms`
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`
  const seconds = Math.floor(ms / 1_000)
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
  const minutes = Math.floor(seconds / 60)
  return minutes < 1_440
    ? `${Math.floor(minutes / 60)} h ${minutes % 60} min`
    : `${Math.floor(minutes / 1_440)} d ${Math.floor(minutes / 60) % 24} h`
}

/** A step of the pipeline: when it was done, and how long it took since the step before. */
export function stepElement(at: string | null, since: string | null): HTMLElement {
  return create(
    'span',
    {},
    timeElement(at),
    at === null || since === null ? null : create('small', { class: 'muted' }, ` +${durationText(since, at)}`),
  )
}
