import { MAX_CLOCK_DIFFERENCE_SECONDS } from '../../db/clock.ts'
import { OperatorError } from '../../errors.ts'

/** A check's result. `remedy` is null if there is nothing to do. */
export interface Finding {
  check: string
  status: 'ok' | 'warning' | 'problem'
  found: string
  remedy: string | null
}

export const ok = (check: string, found: string): Finding => ({ check, status: 'ok', found, remedy: null })
export const warning = (check: string, found: string, remedy: string): Finding => ({ check, status: 'warning', found, remedy })
export const problem = (check: string, found: string, remedy: string): Finding => ({ check, status: 'problem', found, remedy })

// API processes warn from `MAX_CLOCK_DIFFERENCE_SECONDS` on.
const UNEASY_SECONDS = 5

/** Judges a clock. `who` is a machine or process, and `seconds` says how far its clock is ahead of the database's. */
export function judgeClock(who: string, seconds: number): Finding {
  const found = `${who} and the database differ by ${Math.abs(seconds).toFixed(1)} s`
  const remedy = "set both machines' clocks by NTP"
  if (Math.abs(seconds) > MAX_CLOCK_DIFFERENCE_SECONDS) return problem('clock', found, remedy)
  return Math.abs(seconds) > UNEASY_SECONDS ? warning('clock', found, remedy) : ok('clock', found)
}

/** Splits a message of the form `what is wrong; what to do` into its two parts. */
export function splitRemedy(message: string, otherwise: string): { found: string; remedy: string } {
  const [found = '', ...remedy] = message.split(/; |: (?=set |run |raise |restore |mount )/)
  return { found, remedy: remedy.join('; ') || otherwise }
}

/**
 * Runs a check. An error or a timeout becomes a problem with this remedy, so a hanging server does not delay the other
 * checks.
 */
export async function check(
  name: string,
  { remedy, timeoutMs }: { remedy: string; timeoutMs: number },
  work: (signal: AbortSignal) => Promise<Finding[]>,
): Promise<Finding[]> {
  const ending = new AbortController()
  const late = Promise.withResolvers<Finding[]>()
  const timer = setTimeout(() => {
    late.resolve([problem(name, `no answer within ${timeoutMs / 1_000} s`, remedy)])
    ending.abort()
  }, timeoutMs)
  const working = work(ending.signal).catch((error: unknown) => [problem(name, ...describe(error, remedy))])
  return Promise.race([working, late.promise]).finally(() => clearTimeout(timer))
}

function describe(error: unknown, otherwise: string): [found: string, remedy: string] {
  const { code, message } = error as { code?: unknown; message?: string }
  const text = (message || String(code ?? error)).replaceAll(/\s*\n\s*/g, ' ')
  if (!(error instanceof OperatorError)) return [text, otherwise]
  const { found, remedy } = splitRemedy(text, otherwise)
  return [found, remedy]
}
