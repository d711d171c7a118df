import type { Scope } from './api.ts'
import type { Content } from './html.ts'
import type { Names } from './names.ts'

/** One screen of the navigation. */
export interface Screen {
  title: string
  /** Shown to an operator who has one of these scopes; null: to every operator. */
  scopes: readonly Scope[] | null
  /**
   * Called each time the address changes. What it returns is called for each rendering, until `context.signal`
   * aborts.
   */
  open(context: ScreenContext): () => Content
}

export interface ScreenContext {
  /** The parameters of the address after `#name?`. */
  parameters: URLSearchParams
  signal: AbortSignal
  /** The account of the operator. */
  userId: string
  /** Whether the operator's role has a scope: what needs another one is neither shown nor asked for. */
  may(scope: Scope): boolean
  names: Names
  /** Renders the screen soon. */
  update(): void
  /**
   * Shows the heading in the title of the window, too, and moves the focus to it when the screen was opened by a key.
   */
  title(text: string): void
  /** Shows an error, or the sign-in when the session has ended. Null takes the error away: `ended`, or any. */
  report(error: unknown, ended?: unknown): void
  /**
   * Says what was done, at the bottom of the window, until the address changes: change it before, if the message is
   * for the next screen. `undo` is the text of a button beside it and what it does.
   */
  tell(message: string, undo?: readonly [text: string, work: () => Promise<unknown>]): void
  /** A listener for a click: it disables the control while the work runs, and reports its error. */
  act(work: (event: Event) => unknown): (event: Event) => Promise<void>
  /**
   * Asks before the operator leaves while `reason` is not empty, such as "The key is shown only once." Forms do that
   * by themselves.
   */
  keep(reason: () => string): void
}
