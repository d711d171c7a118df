import type { Logger } from 'pino'

/** `notable` are requests that fail, change something or are slow, and a sample of the others. */
export type LoggedRequests = 'notable' | 'all'

export interface AnsweredRequest {
  method: string
  /** The pattern, because paths and queries can contain personal data. Undefined for an unknown address. */
  route: string | undefined
  status: number
  ms: number
}

const SLOW_MS = 500
const SAMPLED_READS = 100

/** Quick successful reads are most requests, and a cache in front hides most of them. */
export class RequestLog {
  readonly #logger: Logger
  readonly #isComplete: boolean
  #reads = 0

  constructor(logger: Logger, logged: LoggedRequests = 'all') {
    this.#logger = logger
    this.#isComplete = logged === 'all'
  }

  add(request: AnsweredRequest, idsOf: () => { request_id: string; trace_id: string }): void {
    if (!this.#logger.isLevelEnabled('info') || !(this.#isComplete || isNotable(request) || this.#isSampled())) return
    this.#logger.info({ ...idsOf(), ...request, ms: Math.round(request.ms) }, 'request')
  }

  #isSampled(): boolean {
    this.#reads += 1
    return this.#reads % SAMPLED_READS === 1
  }
}

function isNotable({ method, status, ms }: AnsweredRequest): boolean {
  return status >= 400 || ms > SLOW_MS || (method !== 'GET' && method !== 'HEAD' && method !== 'OPTIONS')
}
