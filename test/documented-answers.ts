import { checkDocumented } from '../fuzz/check-answer.ts'
import { type Contract, type Operation, readContract } from '../fuzz/contract.ts'
import { Judge } from '../fuzz/judge.ts'
import type { Answer } from './store.ts'

let loaded: Promise<{ operations: { operation: Operation; path: RegExp }[]; judge: Judge }> | undefined

/**
 * Throws when an answer of the API is not as `openapi.json` describes it: the status, the body, the code of a
 * problem.
 */
export async function assertDocumented(method: string, url: string, answer: Answer): Promise<void> {
  loaded ??= readContract().then((contract) => ({ operations: findPaths(contract), judge: new Judge(contract) }))
  const { operations, judge } = await loaded
  const path = url.split('?', 1)[0] ?? ''
  const found = operations.find(({ operation, path: pattern }) => operation.method === method && pattern.test(path))
  if (found === undefined) return
  const sent = {
    status: answer.status,
    headers: new Map(Object.entries(answer.headers).map(([name, value]) => [name, String(value)])),
    bytes: Buffer.from(answer.text),
    json: () => answer.json,
  }
  const faults = checkDocumented(judge, found.operation, sent, answer.status >= 400 ? answer.json : null)
  if (faults.length > 0)
    throw new Error(`${method} ${path} is not as openapi.json says: ${faults.join('; ')}\n${answer.text.slice(0, 500)}`)
}

/** Fixed paths before those with a parameter, which would match them too. */
function findPaths({ operations }: Contract) {
  return operations
    .map((operation) => ({ operation, path: new RegExp(`^${operation.path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`) }))
    .toSorted((a, b) => Number(a.operation.path.includes('{')) - Number(b.operation.path.includes('{')))
}
