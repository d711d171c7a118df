import type { TestContext } from 'node:test'
import { openSteppedDatabase } from '../faults/clocks.ts'
import { Skipped } from '../faults/lake.ts'

/**
 * Like `openSteppedDatabase`. Returns null, and counts the test as skipped with the reason, where required programs are
 * missing.
 */
export async function openSteppedDatabaseOrSkip(t: TestContext): Promise<Awaited<ReturnType<typeof openSteppedDatabase>> | null> {
  return openSteppedDatabase(t).catch((error: unknown) => {
    if (!(error instanceof Skipped)) throw error
    t.skip(error.message)
    return null
  })
}
