import { globSync, readFileSync } from 'node:fs'
import { type Expression, parseSync, Visitor } from 'oxc-parser'

/** Functions whose promises never reject, by file and the text after `void`, each with the reason. */
export const NEVER_REJECT: Readonly<Record<string, string>> = {
  'src/app/create-shedder.ts: wait': 'all of it that can fail is in a try that catches everything',
  'src/cli/record-audit.ts: recording.#beat': 'a report that fails is caught and made again',
  'src/db/embedded/server-supervisor.ts: this.#loop.start': 'a loop gives the error of each round to onFailure',
  'src/deliveries/group-calls.ts: work': 'each group is answered in a try; an item that fails alone rejects its own call',
  'src/deliveries/delivery-worker.ts: this.#heartbeat.start': 'a loop gives the error of each round to onFailure',
  'src/deliveries/delivery-worker.ts: this.#loop.start': 'a loop gives the error of each round to onFailure',
  'src/loop.ts: loop.start': 'what it calls must not throw',
  'src/loop.ts: loop.stop': 'what it calls must not throw',
  'src/mail/smtp-watch.ts: this.#loop.stop': 'a loop gives the error of each round to onFailure',
  'src/orders/placing/deferred-orders.ts: this.#workOnContended': 'placing an order alone returns its error',
  'src/orders/placing/locked-rows.ts: this.#watch': 'each turn is in a try that catches everything',
  'src/orders/placing/order-batcher.ts: this.#work': 'a batch answers its orders with every error; the rest is memory',
  'src/topic/lock-session.ts: this.#orLose': 'it waits for a promise that takes the failure as an answer',
  'src/topic/nats/messages.ts: this.#readNewest': 'all of it is in a try that catches everything',
}

/** Methods of arrays, sockets and child processes that return no promise. */
const SYNCHRONOUS = ['push', 'kill', 'pause', 'resume', 'setTimeout']

/**
 * The expressions after `void` whose rejection nothing handles, as `file: expression`. Biome takes such promises for
 * handled, but an unhandled one ends the process with all its roles.
 */
export function findDropped(path: string, source: string): string[] {
  const { program, errors } = parseSync(path, source, { preserveParens: false })
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`)
  const dropped: string[] = []
  new Visitor({
    UnaryExpression({ operator, argument }) {
      if (operator !== 'void' || isHandled(argument)) return
      const what = argument.type === 'CallExpression' ? argument.callee : argument
      dropped.push(`${path}: ${source.slice(what.start, what.end)}`)
    },
  }).visit(program)
  return dropped
}

/**
 * Whether something handles the promise. `await x` fails the surrounding function, `.catch(…)` and `.then(…, …)` handle
 * what precedes them, and `.finally(…)` handles nothing.
 */
function isHandled(expression: Expression): boolean {
  if (expression.type === 'AwaitExpression' || expression.type === 'Literal') return true
  const call = expression.type === 'ChainExpression' ? expression.expression : expression
  if (call.type !== 'CallExpression' || call.callee.type !== 'MemberExpression' || call.callee.property.type !== 'Identifier') return false
  const { name } = call.callee.property
  if (SYNCHRONOUS.includes(name)) return true
  if (name === 'finally') return isHandled(call.callee.object)
  return call.arguments.length === (name === 'catch' ? 1 : name === 'then' ? 2 : Number.NaN)
}

/** The dropped promises of all files below `src`, without those that run in a browser. */
export function findDroppedBelow(root: string): string[] {
  return globSync('src/**/*.ts', { cwd: root })
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => !path.endsWith('.test.ts'))
    .flatMap((path) => findDropped(path, readFileSync(`${root}/${path}`, 'utf8')))
}
