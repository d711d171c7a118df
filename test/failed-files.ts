import { relative } from 'node:path'
import type { TestEvent } from 'node:test/reporters'

/** A reporter of node:test: the path of each file with a failed test, once, a line each. */
export default async function* failedFiles(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const files = new Set<string>()
  for await (const { type, data } of events) {
    if (type !== 'test:fail' || data.todo !== undefined) continue
    const file = relative(process.cwd(), data.file ?? data.name)
    if (files.has(file)) continue
    files.add(file)
    yield `${file}\n`
  }
}
