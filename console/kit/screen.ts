import type { Scope } from './api.ts'
import type { Content } from './html.ts'
import type { Names } from './names.ts'

export interface Screen {
  title: string
  /** Operators with one of these scopes see the screen. Null means every operator. */
  scopes: readonly Scope[] | null
  /**
   * Called each time the address changes. The returned function is called for each rendering until `context.signal`
   * aborts.
   */
  open(context: ScreenContext): () => Content
}

export interface ScreenContext {
  /** The parameters after `#name?` in the address. */
  parameters: URLSearchParams
  signal: AbortSignal
  /** The id of the operator's account. */
  userId: string
  /** Whether the operator's role has a scope. The screen neither shows nor requests what needs another scope. */
  may(scope: Scope): boolean
  names: Names
  /** Renders the screen soon. */
  update(): void
  /** Sets the title of the window. A screen calls it when its heading is known. */
  title(text: string): void
  /** Shows an error, or the sign-in when the session has ended. With null it hides the error `ended`, or any error. */
  report(error: unknown, ended?: unknown): void
  /**
   * Shows a message at the bottom of the window until the address changes. Change the address first if the message is
   * for the next screen. `undo` adds a button with this text and action.
   */
  tell(message: string, undo?: readonly [text: string, work: () => Promise<unknown>]): void
  /** Makes a click listener. It disables the control while the work runs, and reports the error of the work. */
  act(work: (event: Event) => unknown): (event: Event) => Promise<void>
  /**
   * Asks before the operator leaves while `reason` returns a text, such as "The key is shown only once." Forms do this
   * by themselves.
   */
  keep(reason: () => string): void
}
