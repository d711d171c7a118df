import assert from 'node:assert/strict'
import { Value } from 'typebox/value'
import type { ErrorCode } from '../src/errors.ts'
import { PROBLEM_SCHEMAS } from '../src/http/problem.ts'
import type { Answer } from './store.ts'

// What only a programmer should see: a stack, a path of the source, SQL.
const INTERNALS = /node_modules|\.ts\b|\.js\b|\n\s+at |Error:|select |insert into/

const PROBLEM_TYPE = /^application\/problem\+json/

/** The media type of the refusals of a route: Iceberg's clients read JSON only. */
export function problemTypeOf(url: string): RegExp {
  return url.startsWith('/iceberg/') ? /^application\/json/ : PROBLEM_TYPE
}

/**
 * The answer is this refusal, whole and without a word about our insides. Returns it. `what` says which case failed.
 */
export function assertProblem(
  answer: Pick<Answer, 'status' | 'headers' | 'text'>,
  status: number,
  code: ErrorCode,
  what = '',
  type = PROBLEM_TYPE,
): Answer['json'] {
  const context = `${what} ${answer.status} ${answer.text.slice(0, 500)}`
  assert.equal(answer.status, status, context)
  assert.match(answer.headers['content-type'] ?? '', type, context)
  const problem = JSON.parse(answer.text)
  assert.equal(problem.code, code, context)
  assert.equal(problem.status, status, context)
  assert.ok(URL.canParse(problem.type) && problem.type.endsWith(`/problems/${code}`), context)
  assert.ok(problem.title.length > 0 && problem.detail.length > 0, context)
  assert.ok(answer.headers['x-request-id'] !== undefined, context)
  assert.equal(problem.request_id, answer.headers['x-request-id'], context)
  assert.match(problem.trace_id, /^[0-9a-f]{32}$/, context)
  assert.doesNotMatch(answer.text, INTERNALS, context)
  assert.deepEqual(findProblemFaults(problem), [], context)
  return problem
}

/** The `pointer` (or `parameter`) of each fault that a refusal names. */
export function faults(problem: { errors?: { pointer?: string; parameter?: string }[] }): (string | undefined)[] {
  return (problem.errors ?? []).map(({ pointer, parameter }) => pointer ?? parameter)
}

/** What the schema of the problem's code does not say: other members, and other values. */
export function findProblemFaults(problem: { code: string }): string[] {
  const schema = PROBLEM_SCHEMAS.find(({ properties }) => (properties.code.enum as string[]).includes(problem.code))
  if (schema === undefined) return [`no schema has ${problem.code}`]
  const unknown = Object.keys(problem).filter((name) => !Object.hasOwn(schema.properties, name))
  const errors = Value.Errors(schema, problem).map(({ instancePath, message }) => `${instancePath} ${message}`)
  return [...unknown.map((name) => `${name} is not in the schema`), ...errors]
}
