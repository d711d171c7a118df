import { join, relative } from 'node:path'
import type { TestEvent } from 'node:test/reporters'

/** Where the test of a whole file is made that shares its process: its name is the file's path. */
const GROUP = join(import.meta.dirname, 'run-group.ts')

/** A reporter of node:test: the path of each file with a failed test, once, a line each. */
export default async function* failedFiles(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const files = new Set<string>()
  for await (const { type, data } of events) {
    if (type !== 'test:fail' || data.todo !== undefined) continue
    const file = relative(process.cwd(), data.file === undefined || data.file === GROUP ? data.name : data.file)
    if (files.has(file)) continue
    files.add(file)
    yield `${file}\n`
  }
}
