/** What a command printed, and its exit status: see docs/operations.md. */
export interface CommandOutcome {
  status: number | null
  stdout: string
  stderr: string
}

/**
 * Runs a command of this program, such as `['verify', '--json']`, in a process of its own with the settings of this one: it cannot take
 * memory or time from requests. `signal` ends it whatever it does, and so does the end of this process.
 */
export type RunCommand = (args: readonly string[], options: { signal: AbortSignal }) => Promise<CommandOutcome>
