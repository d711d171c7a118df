/** Items of several owners, who take turns: nobody waits for all that another has queued. */
export class FairQueue<Item> {
  /** In the order of the turns. */
  readonly #itemsOf = new Map<string, Item[]>()
  #length = 0

  get length(): number {
    return this.#length
  }

  /** The number of owners that have items in it. */
  get owners(): number {
    return this.#itemsOf.size
  }

  push(owner: string, item: Item): void {
    const items = this.#itemsOf.get(owner)
    if (items === undefined) this.#itemsOf.set(owner, [item])
    else items.push(item)
    this.#length += 1
  }

  /**
   * Removes items, one of each owner in turn, then another one of each: the first of the owner that is ready. An owner whose item does not fit
   * comes earlier in the next call than those that had a turn in this one.
   */
  *take(isReady: (item: Item) => boolean, fits: (item: Item) => boolean): Generator<Item> {
    // The iteration comes again to an owner that is moved to the end.
    for (const [owner, items] of this.#itemsOf) {
      const index = items.findIndex(isReady)
      const item = items[index]
      if (item === undefined || !fits(item)) continue
      items.splice(index, 1)
      this.#length -= 1
      this.#itemsOf.delete(owner)
      if (items.length > 0) this.#itemsOf.set(owner, items)
      yield item
    }
  }
}
