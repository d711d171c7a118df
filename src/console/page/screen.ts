import type { Scope } from './api.ts'
import type { Names } from './names.ts'

/** One of the six screens. */
export interface Screen {
  title: string
  /** Shown to an operator who has one of these scopes; null: to every operator. */
  scopes: readonly Scope[] | null
  /** Fills `root` and keeps it up to date until `signal` aborts. `parameters` are those of the address after `#name?`. */
  open(root: HTMLElement, context: ScreenContext): void
}

export interface ScreenContext {
  parameters: URLSearchParams
  signal: AbortSignal
  /** The account of the operator. */
  userId: string
  /** Whether the operator's role has a scope: what needs another one is neither shown nor asked for. */
  may(scope: Scope): boolean
  names: Names
  /** Shows an error of a call in the screen, or the sign-in when the session has ended; null takes the error away. */
  report(error: unknown): void
  /** Shows a short message about what was done. */
  tell(message: string): void
}
