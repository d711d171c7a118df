/**
 * Returns a function whose concurrent calls share one `run`. Calls during a run form the next group, of at most `max`.
 * If a group fails, each call runs alone, so one cannot fail the others. `run` must return results in the order of its
 * items.
 */
export function groupCalls<Item, Result>(run: (items: readonly Item[]) => Promise<Result[]>, max: number): (item: Item) => Promise<Result> {
  type Call = { item: Item; resolve: (result: Result) => void; reject: (error: unknown) => void }
  const waiting: Call[] = []
  let isAtWork = false

  async function work(): Promise<void> {
    isAtWork = true
    while (waiting.length > 0) await answer(waiting.splice(0, max))
    isAtWork = false
  }

  async function answer(calls: readonly Call[]): Promise<void> {
    try {
      const results = await run(calls.map(({ item }) => item))
      for (const [index, { resolve }] of calls.entries()) resolve(results[index] as Result)
    } catch (error) {
      const [first, ...others] = calls
      if (others.length === 0) first?.reject(error)
      else for (const call of calls) await answer([call])
    }
  }

  return (item) => {
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    waiting.push({ item, resolve, reject })
    if (!isAtWork) void work()
    return promise
  }
}
