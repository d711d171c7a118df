/** Returns `late` when `work` takes longer than `ms`. The work continues, and its failure is ignored. */
export async function withinMs<T, L>(ms: number, work: Promise<T>, late: L): Promise<T | L> {
  const { promise, resolve } = Promise.withResolvers<L>()
  const timer = setTimeout(resolve, ms, late)
  return Promise.race([work, promise]).finally(() => clearTimeout(timer))
}
