import { after } from 'node:test'

/** Registers clean-up: a test's context, or `{ after }` of node:test for a whole file. */
export interface Cleanup {
  after(work: () => Promise<void> | void): void
}

const undone = new Map<Cleanup | typeof after, (() => Promise<void> | void)[]>()

/** Like `t.after`, but last in, first out: a resource may need those that were created before it. */
export function onCleanup(t: Cleanup, work: () => Promise<void> | void): void {
  // Each `{ after }` of a file is another object.
  const scope = t.after === after ? after : t
  const stack = undone.get(scope)
  if (stack !== undefined) {
    stack.push(work)
    return
  }
  const fresh = [work]
  undone.set(scope, fresh)
  t.after(async () => {
    // The next file of the process has a stack of its own.
    undone.delete(scope)
    const failures: unknown[] = []
    for (const undo of fresh.toReversed()) await Promise.resolve(undo()).catch((error) => failures.push(error))
    if (failures.length > 0) throw failures.length === 1 ? failures[0] : new AggregateError(failures)
  })
}

/** Cleans up after work outside a test, such as a benchmark. */
export async function withCleanup(work: (cleanup: Cleanup) => Promise<void>): Promise<void> {
  const ends: (() => Promise<void> | void)[] = []
  try {
    await work({ after: (end) => void ends.push(end) })
  } finally {
    for (const end of ends) await end()
  }
}
