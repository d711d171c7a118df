/**
 * Who something counts for: the account, then its network, as far as they are known and count. Networks take turns, and within one its accounts;
 * an account without a network takes turns with networks.
 */
export type CountedFor = readonly string[]

interface Queued<Item> {
  item: Item
  /** Greater for what came later. */
  number: number
}

/** The items of one network: those of each account, in the order of the turns. `since`: when it began to wait for its turn. */
interface Network<Item> {
  accounts: Map<string, Queued<Item>[]>
  length: number
  since: number
}

/** Items of several networks and accounts, who take turns: nobody waits for all that another has queued. */
export class FairQueue<Item> {
  /** In the order of the turns. */
  #networks = new Map<string, Network<Item>>()
  #length = 0
  #pushed = 0

  get length(): number {
    return this.#length
  }

  /** The number of networks, and of accounts without one, that have items in it. */
  get owners(): number {
    return this.#networks.size
  }

  push(countedFor: CountedFor, item: Item): void {
    const [account, name] = ownersOf(countedFor)
    const network: Network<Item> = this.#networks.get(name) ?? { accounts: new Map(), length: 0, since: performance.now() }
    this.#networks.set(name, network)
    const items = network.accounts.get(account) ?? []
    network.accounts.set(account, items)
    items.push({ item, number: this.#pushed++ })
    network.length += 1
    this.#length += 1
  }

  /**
   * Removes items, one of each network in turn, then another one of each: the first that is ready of the account whose turn it is. Whose item
   * does not fit comes earlier in the next call than those that had a turn in this one.
   */
  *take(isReady: (item: Item) => boolean, fits: (item: Item) => boolean): Generator<Item> {
    const turns = new Map<Network<Item>, Iterator<Item>>()
    const passed = new Set<string>()
    try {
      // The iteration comes again to a network that is moved to the end.
      for (const [name, network] of this.#networks) {
        const fitsHere = (item: Item) => {
          if (fits(item)) return true
          passed.add(name)
          return false
        }
        const turn = turns.get(network) ?? this.#takeOf(network, isReady, fitsHere)
        turns.set(network, turn)
        const { value, done } = turn.next()
        if (done === true) continue
        this.#networks.delete(name)
        if (network.length > 0) this.#networks.set(name, Object.assign(network, { since: performance.now() }))
        yield value
      }
    } finally {
      if (passed.size > 0) {
        const [first, others] = [true, false].map((isPassed) => [...this.#networks].filter(([name]) => passed.has(name) === isPassed))
        this.#networks = new Map([...(first ?? []), ...(others ?? [])])
      }
    }
  }

  *#takeOf(network: Network<Item>, isReady: (item: Item) => boolean, fits: (item: Item) => boolean): Generator<Item, undefined> {
    for (const [account, items] of network.accounts) {
      const index = items.findIndex(({ item }) => isReady(item))
      const next = items[index]
      if (next === undefined || !fits(next.item)) continue
      items.splice(index, 1)
      network.length -= 1
      this.#length -= 1
      network.accounts.delete(account)
      if (items.length > 0) network.accounts.set(account, items)
      yield next.item
    }
  }

  /** How long the next network that is ready has waited for its turn, in milliseconds. */
  turnWaitMs(isReady: (item: Item) => boolean): number {
    const hasReady = (items: Queued<Item>[]) => items.some(({ item }) => isReady(item))
    for (const { accounts, since } of this.#networks.values()) if (accounts.values().some(hasReady)) return performance.now() - since
    return 0
  }

  /** Removes an item. Returns false when it is not in the queue. */
  remove(countedFor: CountedFor, item: Item): boolean {
    const [account, name] = ownersOf(countedFor)
    const network = this.#networks.get(name)
    const items = network?.accounts.get(account) ?? []
    const index = items.findIndex((queued) => queued.item === item)
    if (network === undefined || index < 0) return false
    items.splice(index, 1)
    network.length -= 1
    this.#length -= 1
    if (items.length === 0) network.accounts.delete(account)
    if (network.length === 0) this.#networks.delete(name)
    return true
  }

  /** Removes the newest item of the account that has most, of the network that has most. Of several with as many, the one that came last counts. */
  dropFromLongest(): Item | undefined {
    const network = longest(
      this.#networks,
      ({ length }) => length,
      ({ accounts }) => Math.max(...accounts.values().map(newest)),
    )
    if (network === undefined) return undefined
    const account = longest(network[1].accounts, ({ length }) => length, newest)
    const item = account?.[1].at(-1)?.item
    if (account !== undefined && item !== undefined) this.remove([account[0], network[0]], item)
    return item
  }
}

/** The account and the network; without the one or the other, it is both. */
function ownersOf(countedFor: CountedFor): [account: string, network: string] {
  return [countedFor[0] ?? '', countedFor.at(-1) ?? '']
}

function newest(items: readonly Queued<unknown>[]): number {
  return items.at(-1)?.number ?? -1
}

function longest<Owner>(owners: Map<string, Owner>, lengthOf: (owner: Owner) => number, newestOf: (owner: Owner) => number) {
  let found: { entry: [string, Owner]; length: number; newest: number } | undefined
  for (const entry of owners) {
    const length = lengthOf(entry[1])
    if (found !== undefined && length < found.length) continue
    const newest = newestOf(entry[1])
    if (found === undefined || length > found.length || newest > found.newest) found = { entry, length, newest }
  }
  return found?.entry
}
