import assert from 'node:assert/strict'
import { makeRandom } from '../faults/random.ts'
import type { OrderEvent } from '../src/orders/events.ts'
import type { TopicMessage } from '../src/topic/topic.ts'
import { makeOrderEvent, makeOrderItem } from './order-event-factory.ts'

type Order = OrderEvent['data']['order']

/** Orders of some months that are placed, changed and cancelled at random, by a seed. */
export class Trade {
  readonly #random = makeRandom(34)
  readonly #orders: Order[] = []
  #sequence = 0

  next(): TopicMessage {
    this.#sequence += 1
    const isNew = this.#orders.length < 4 || this.#random() < 0.4
    return { sequence: this.#sequence, event: isNew ? this.#place() : this.#change(this.#pick()) }
  }

  batch(count: number): TopicMessage[] {
    return Array.from({ length: count }, () => this.next())
  }

  #place(): OrderEvent {
    // Some are moved in, and have the time at which another shop took them.
    const at = new Date(Date.UTC(2026, Math.floor(this.#random() * 3), 1 + Math.floor(this.#random() * 28), 12))
    const items = Array.from({ length: 1 + Math.floor(this.#random() * 3) }, () => makeOrderItem())
    const event = makeOrderEvent({ at, order: { number: `SF-${this.#sequence}`, items } })
    this.#orders.push(event.data.order)
    return event
  }

  #change(before: Order): OrderEvent {
    const at = new Date(Date.UTC(2026, 3, 1, 0, this.#sequence))
    const isEnd = before.status === 'cancelled' || this.#random() < 0.5
    const status = isEnd ? before.status : 'cancelled'
    const change = {
      status,
      at: at.toISOString(),
      actor: { type: 'admin', id: before.user_id } as const,
      reason: `no ${this.#sequence}`,
    }
    const order: Order = {
      ...before,
      ...{ status, version: before.version + 1, updated_at: at.toISOString() },
      items: this.#random() < 0.3 ? [...before.items, makeOrderItem()] : before.items,
      status_history: [...before.status_history, change],
    }
    this.#orders[this.#orders.indexOf(before)] = order
    return makeOrderEvent({ order, type: 'storefront.order.cancelled', previous_status: before.status })
  }

  #pick(): Order {
    return this.#orders[Math.floor(this.#random() * this.#orders.length)] ?? assert.fail()
  }
}
