export interface ShareLimits {
  customerOrders: number
  customerLines: number
  fewOrders: number
  fewLines: number
}

/** How much of the batcher each customer uses: one with many connections must not fill it for the others. */
export class CustomerShares {
  readonly #limits: ShareLimits
  readonly #used = new Map<string, { orders: number; lines: number }>()

  constructor(limits: ShareLimits) {
    this.#limits = limits
  }

  /** Whether the customer uses little, also with another order of `lines`. */
  usesLittleWith(customer: string, lines: number): boolean {
    const used = this.#used.get(customer) ?? { orders: 0, lines: 0 }
    return used.orders < this.#limits.fewOrders && used.lines + lines <= this.#limits.fewLines
  }

  /** Counts an order until its answer. Returns false, and counts nothing, when the customer uses all of a share. */
  take(customer: string, lines: number, answer: Promise<unknown>): boolean {
    const used = this.#used.get(customer) ?? { orders: 0, lines: 0 }
    if (used.orders >= this.#limits.customerOrders || used.lines >= this.#limits.customerLines) return false
    used.orders += 1
    used.lines += lines
    this.#used.set(customer, used)
    const giveBack = () => {
      used.orders -= 1
      used.lines -= lines
      if (used.orders === 0) this.#used.delete(customer)
    }
    answer.then(giveBack, giveBack)
    return true
  }
}
