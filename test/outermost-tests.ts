import type { TestEvent } from 'node:test/reporters'

/**
 * A reporter of node:test: a line for each outermost test, such as "pass src/orders/order.test.ts"
 * (test/run-group.ts).
 */
export default async function* outermostTests(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const { type, data } of events) {
    if ((type !== 'test:pass' && type !== 'test:fail') || data.nesting > 0 || data.todo !== undefined) continue
    yield `${type.slice('test:'.length)} ${data.name}\n`
  }
}
