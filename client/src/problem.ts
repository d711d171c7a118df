import type { components } from './shop.ts'

/** The body of a refusal: RFC 9457 problem details, with the additional properties of its code, such as `shortages`. */
export type Problem = components['schemas']['Problem']
/** Every `code` with which the API can answer. */
export type ProblemCode = Problem['code']

/** The problem with this code. */
export type ProblemOf<Code extends ProblemCode> = Problem & { code: Code }

/** A refusal by the API. `code` is stable. Branch on it with `isProblem`, which knows the properties of each code. */
export class ProblemError<Code extends ProblemCode = ProblemCode> extends Error {
  override readonly name = 'ProblemError'
  readonly problem: ProblemOf<Code>
  readonly response: Response

  constructor(problem: ProblemOf<Code>, response: Response) {
    const faults = (problem.errors ?? []).map(({ pointer, parameter, detail }) => `${pointer ?? parameter ?? ''} ${detail}`.trim())
    super([`${problem.code}: ${problem.detail}`, ...faults].join(' '))
    this.problem = problem
    this.response = response
  }

  get code(): Code {
    return this.problem.code
  }

  /** The HTTP status. */
  get status(): number {
    return this.response.status
  }

  /** The request's id in the store's logs. */
  get requestId(): string {
    return this.problem.request_id
  }

  /** The request's trace in the store's logs and traces. */
  get traceId(): string {
    return this.problem.trace_id
  }
}

/** Whether an error is a refusal with this code. */
export function isProblem<Code extends ProblemCode>(error: unknown, code: Code): error is ProblemError<Code> {
  return error instanceof ProblemError && error.code === code
}

/** The problem in a response. Null if its body is not a problem, such as a proxy's error page or a truncated answer. */
export async function readProblem(response: Response): Promise<Problem | null> {
  if (!response.headers.get('content-type')?.startsWith('application/problem+json')) return null
  const body = (await response
    .clone()
    .json()
    .catch(() => null)) as Problem | null
  return typeof body?.code === 'string' ? body : null
}

/** An answer that is neither a success nor a problem, so something between the client and the store answered. */
export class UnexpectedResponse extends Error {
  override readonly name = 'UnexpectedResponse'
  readonly response: Response

  constructor(response: Response) {
    super(`unexpected response with status ${response.status}`)
    this.response = response
  }
}

/** The body of an answer. Refusals have already been thrown. */
export function dataOf<Data>({ data, response }: { data?: Data; response: Response }): Data {
  if (data === undefined) throw new UnexpectedResponse(response)
  return data
}
