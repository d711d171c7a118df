/** Items of several owners, who take turns: nobody waits for all that another has queued. */
export class FairQueue<Item> {
  /** In the order of the turns; `since`: when the owner began to wait for its turn. */
  readonly #itemsOf = new Map<string, { items: Item[]; since: number }>()
  #length = 0

  get length(): number {
    return this.#length
  }

  /** The number of owners that have items in it. */
  get owners(): number {
    return this.#itemsOf.size
  }

  push(owner: string, item: Item): void {
    const waiting = this.#itemsOf.get(owner)
    if (waiting === undefined) this.#itemsOf.set(owner, { items: [item], since: performance.now() })
    else waiting.items.push(item)
    this.#length += 1
  }

  /**
   * Removes items, one of each owner in turn, then another one of each: the first of the owner that is ready. An owner whose item does not fit
   * comes earlier in the next call than those that had a turn in this one.
   */
  *take(isReady: (item: Item) => boolean, fits: (item: Item) => boolean): Generator<Item> {
    // The iteration comes again to an owner that is moved to the end.
    for (const [owner, { items }] of this.#itemsOf) {
      const index = items.findIndex(isReady)
      const item = items[index]
      if (item === undefined || !fits(item)) continue
      items.splice(index, 1)
      this.#length -= 1
      this.#itemsOf.delete(owner)
      if (items.length > 0) this.#itemsOf.set(owner, { items, since: performance.now() })
      yield item
    }
  }

  /** How long the next owner that is ready has waited for its turn, in milliseconds. */
  turnWaitMs(isReady: (item: Item) => boolean): number {
    for (const { items, since } of this.#itemsOf.values()) if (items.some(isReady)) return performance.now() - since
    return 0
  }

  /** Removes an item of an owner. Returns false when it is not in the queue. */
  remove(owner: string, item: Item): boolean {
    const items = this.#itemsOf.get(owner)?.items ?? []
    const index = items.indexOf(item)
    if (index < 0) return false
    items.splice(index, 1)
    this.#length -= 1
    if (items.length === 0) this.#itemsOf.delete(owner)
    return true
  }

  /** Removes the newest item of the owner that has most. */
  dropFromLongest(): Item | undefined {
    let longest: [string, Item[]] | undefined
    for (const [owner, { items }] of this.#itemsOf) if (longest === undefined || items.length > longest[1].length) longest = [owner, items]
    const newest = longest?.[1].at(-1)
    if (longest !== undefined && newest !== undefined) this.remove(longest[0], newest)
    return newest
  }
}
