import { poll, restartable } from './api.ts'
import { type Content, loading } from './html.ts'
import type { ScreenContext } from './screen.ts'

interface FollowOptions<T> {
  seconds: number
  /** Called with each answer that differs from the one before, which is rendered then. */
  onChange?: (data: T) => void
  endsAt?: readonly number[]
}

export interface Followed<T> {
  /** The newest answer; null before the first one. */
  (): T | null
  /** Asks now, and again and again until the screen ends. */
  refresh(): void
  /** Asks no more, until the next `refresh`. */
  stop(): void
  /** The newest answer in a template, or why there is none yet. */
  show(content: (data: T) => Content): Content
}

/** What the store answers while a screen is open, from the first `refresh` on. */
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
