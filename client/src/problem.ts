import type { components } from './schema.ts'

/** The body of a refusal: RFC 9457 problem details. Some codes add members, such as `shortages`. */
export type Problem = components['schemas']['Problem'] & { [member: string]: unknown }
/** Every `code` that the API can answer with. */
export type ProblemCode = Problem['code']

/** A refusal by the API. `code` is stable: branch on it. */
export class ProblemError extends Error {
  override readonly name = 'ProblemError'
  readonly problem: Problem
  readonly response: Response

  constructor(problem: Problem, response: Response) {
    super(`${problem.code}: ${problem.detail}`)
    this.problem = problem
    this.response = response
  }

  get code(): ProblemCode {
    return this.problem.code
  }

  /** The HTTP status. */
  get status(): number {
    return this.response.status
  }

  /** Names the request in the logs of the store. */
  get requestId(): string {
    return this.problem.request_id
  }

  /** Names the trace of the request, in the logs of the store and in its traces. */
  get traceId(): string {
    return this.problem.trace_id
  }
}

/** Whether an error is the refusal with this code. */
export function isProblem(error: unknown, code: ProblemCode): error is ProblemError {
  return error instanceof ProblemError && error.code === code
}

/** The problem of a response; null when its body is none, such as the error page of a proxy or a part of an answer. */
export async function readProblem(response: Response): Promise<Problem | null> {
  if (!response.headers.get('content-type')?.startsWith('application/problem+json')) return null
  const body = (await response
    .clone()
    .json()
    .catch(() => null)) as Problem | null
  return typeof body?.code === 'string' ? body : null
}

/** An answer that is neither a success nor a problem: something between the client and the store answered. */
export class UnexpectedResponse extends Error {
  override readonly name = 'UnexpectedResponse'
  readonly response: Response

  constructor(response: Response) {
    super(`unexpected response with status ${response.status}`)
    this.response = response
  }
}

/** The body of an answer; refusals were thrown before. */
export function dataOf<Data>({ data, response }: { data?: Data; response: Response }): Data {
  if (data === undefined) throw new UnexpectedResponse(response)
  return data
}
