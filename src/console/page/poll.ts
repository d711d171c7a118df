import { Refusal, SignedOut, send } from './api.ts'

/** A request that got no answer is repeated soon. */
const RETRY_MS = 2_000
const MAX_RETRY_AFTER_MS = 300_000

export interface PollOptions<T> {
  seconds: number
  signal: AbortSignal
  /** Called with each answer that differs from the one before. */
  onChange: (data: T) => void
  /** Called with an error, and with null when a request succeeds after one. While the store does not answer, the page has its own line for that. */
  onError: (error: Error | null) => void
}

/** Asks for `path` now and every `seconds` with the entity tag of the last answer (RFC 9110 §13.1.2), while the page is visible, until `signal`. */
export async function poll<T>(path: string, { seconds, signal, onChange, onError }: PollOptions<T>): Promise<void> {
  let etag: string | null = null
  let hasFailed = false
  while (!signal.aborted) {
    let pauseMs = seconds * 1_000
    try {
      const answer = await send('GET', path, { signal, headers: etag === null ? {} : { 'if-none-match': etag } })
      if (hasFailed) onError(null)
      hasFailed = false
      if (answer.status !== 304) {
        etag = answer.headers.get('etag')
        const data = (await answer.json()) as T
        if (!signal.aborted) onChange(data)
      }
    } catch (error) {
      if (signal.aborted) return
      hasFailed = true
      onError(error as Error)
      if (error instanceof SignedOut) return
      pauseMs = pauseAfter(error, pauseMs)
    }
    await pause(pauseMs, signal)
  }
}

/** A refusal will not change soon, unless the store says when (RFC 9110 §10.2.3). */
function pauseAfter(error: unknown, usualMs: number): number {
  if (!(error instanceof Refusal)) return Math.min(usualMs, RETRY_MS)
  return error.retryAfterSeconds === null ? usualMs : Math.min(error.retryAfterSeconds * 1_000, MAX_RETRY_AFTER_MS)
}

/** Ends early when the page becomes visible after the time has passed; a hidden page waits. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
  if (!document.hidden) return
  await new Promise<void>((resolve) => {
    document.addEventListener('visibilitychange', () => resolve(), { once: true })
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
