/** The account, then its network, if known. Networks take turns, and within one its accounts. */
export type QuotaKey = readonly string[]

interface Owner {
  weight: number
  newest: number
}

interface Account<Item> extends Owner {
  items: { item: Item; weight: number; number: number }[]
}

/** `accounts` are in the order of turns. `since` is when the network began to wait for its turn. */
interface Network<Item> extends Owner {
  accounts: Map<string, Account<Item>>
  since: number
}

/** Networks and accounts take turns, so a caller never waits for all requests of another. */
export class FairQueue<Item> {
  #networks = new Map<string, Network<Item>>()
  #length = 0
  #weight = 0
  #pushed = 0

  get length(): number {
    return this.#length
  }

  get weight(): number {
    return this.#weight
  }

  /** Counts networks, and accounts without a network. */
  get owners(): number {
    return this.#networks.size
  }

  push(quotaKey: QuotaKey, item: Item, weight = 1): void {
    const [accountName, name] = ownersOf(quotaKey)
    const network: Network<Item> = this.#networks.get(name) ?? { accounts: new Map(), weight: 0, newest: 0, since: performance.now() }
    this.#networks.set(name, network)
    const account: Account<Item> = network.accounts.get(accountName) ?? { items: [], weight: 0, newest: 0 }
    network.accounts.set(accountName, account)
    const number = ++this.#pushed
    account.items.push({ item, weight, number })
    account.newest = network.newest = number
    this.#count(network, account, 1, weight)
  }

  /** Removes one ready item of each network in turn. An owner whose item does not fit comes first next time. */
  *take(isReady: (item: Item) => boolean, fits: (item: Item) => boolean): Generator<Item> {
    const turns = new Map<Network<Item>, Iterator<Item>>()
    const passed = new Set<string>()
    try {
      // The loop revisits a network that was moved to the end of the map.
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
        if (network.accounts.size > 0) this.#networks.set(name, Object.assign(network, { since: performance.now() }))
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
    for (const [name, account] of network.accounts) {
      const index = account.items.findIndex(({ item }) => isReady(item))
      const next = account.items[index]
      if (next === undefined || !fits(next.item)) continue
      account.items.splice(index, 1)
      this.#count(network, account, -1, -next.weight)
      network.accounts.delete(name)
      if (account.items.length > 0) network.accounts.set(name, account)
      yield next.item
    }
  }

  count(isReady: (item: Item) => boolean): number {
    let count = 0
    for (const { accounts } of this.#networks.values())
      for (const { items } of accounts.values()) for (const { item } of items) if (isReady(item)) count++
    return count
  }

  turnWaitMs(isReady: (item: Item) => boolean): number {
    const hasReady = ({ items }: Account<Item>) => items.some(({ item }) => isReady(item))
    for (const { accounts, since } of this.#networks.values()) if (accounts.values().some(hasReady)) return performance.now() - since
    return 0
  }

  remove(quotaKey: QuotaKey, item: Item): boolean {
    const [accountName, name] = ownersOf(quotaKey)
    const network = this.#networks.get(name)
    const account = network?.accounts.get(accountName)
    const index = account?.items.findIndex((queued) => queued.item === item) ?? -1
    const [removed] = index < 0 ? [] : (account?.items.splice(index, 1) ?? [])
    if (network === undefined || account === undefined || removed === undefined) return false
    this.#count(network, account, -1, -removed.weight)
    account.newest = account.items.at(-1)?.number ?? 0
    if (account.items.length === 0) network.accounts.delete(accountName)
    network.newest = Math.max(0, ...network.accounts.values().map(({ newest }) => newest))
    if (network.accounts.size === 0) this.#networks.delete(name)
    return true
  }

  /** The heaviest account in the heaviest network. Of equal ones, the owner whose newest item came last. */
  dropFromHeaviest(): Item | undefined {
    const [name = '', network] = heaviest(this.#networks)
    const [accountName = '', account] = heaviest(network?.accounts ?? new Map<string, Account<Item>>())
    const item = account?.items.at(-1)?.item
    if (item !== undefined) this.remove([accountName, name], item)
    return item
  }

  #count(network: Network<Item>, account: Account<Item>, items: number, weight: number): void {
    account.weight += weight
    network.weight += weight
    this.#weight += weight
    this.#length += items
  }
}

/** An account without a network is its own network, and the reverse. */
function ownersOf(quotaKey: QuotaKey): [account: string, network: string] {
  return [quotaKey[0] ?? '', quotaKey.at(-1) ?? '']
}

function heaviest<One extends Owner>(owners: Map<string, One>): [string, One] | [] {
  let found: [string, One] | [] = []
  for (const entry of owners) {
    const [, { weight, newest }] = entry
    const most = found[1]
    if (most === undefined || weight > most.weight || (weight === most.weight && newest > most.newest)) found = entry
  }
  return found
}
