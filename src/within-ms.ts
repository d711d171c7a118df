/** Waits for `work`, at most `ms`. Then returns `late`, and `work` continues with its failure ignored. */
export async function withinMs<T, L>(ms: number, work: Promise<T>, late: L): Promise<T | L> {
  const { promise, resolve } = Promise.withResolvers<L>()
  const timer = setTimeout(resolve, ms, late)
  return Promise.race([work, promise]).finally(() => clearTimeout(timer))
}
