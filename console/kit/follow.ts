import { poll, restartable } from './api.ts'
import { type Content, loading } from './html.ts'
import type { ScreenContext } from './screen.ts'

interface FollowOptions<T> {
  seconds: number
  /** Called with each answer that differs from the previous one. The screen renders afterwards. */
  onChange?: (data: T) => void
  endsAt?: readonly number[]
}

export interface Followed<T> {
  /** The newest answer, or null before the first one. */
  (): T | null
  /** Asks at once, and then again and again until the screen ends. */
  refresh(): void
  /** Stops asking until the next `refresh`. */
  stop(): void
  /** Renders the newest answer, or the reason why there is none yet. */
  show(content: (data: T) => Content): Content
}

/** The store's newest answer while a screen is open, beginning with the first `refresh`. */
export function follow<T>(
  { signal, report, update }: Pick<ScreenContext, 'signal' | 'report' | 'update'>,
  ask: Parameters<typeof poll<T>>[0],
  { seconds, onChange = () => {}, endsAt = [] }: FollowOptions<T>,
): Followed<T> {
  let newest: T | null = null
  let fault: unknown = null
  const onAnswer = (data: T) => {
    newest = data
    fault = null
    onChange(data)
    update()
  }
  const onError = (error: unknown, ended?: unknown) => {
    fault = error
    report(error, ended)
  }
  const refresh = restartable(signal, (until) => {
    void poll(ask, { seconds, signal: until, onChange: onAnswer, onError, endsAt })
  })
  const show = (content: (data: T) => Content) => (newest === null ? loading(fault) : content(newest))
  return Object.assign(() => newest, { refresh, stop: refresh.stop, show })
}
