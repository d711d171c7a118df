import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import type { DatabaseAddresses } from '../db/addresses.ts'
import type { Pool } from '../db/pool.ts'
import { OperatorError } from '../errors.ts'
import type { LakeStore } from '../lake/lake-store.ts'

/** A shell's exit status for a command that SIGINT interrupted: 128 plus the signal's number. */
export const EXIT_INTERRUPTED = 130

export interface Terminal {
  out: (line: string) => void
  err: (line: string) => void
  exit: (status: number) => never
}

/** What a command can need. A `database` exists and is migrated, and a `lake` exists. */
export interface Contexts {
  nothing: { terminal: Terminal }
  settings: Contexts['nothing'] & { config: Config; logger: Logger }
  database: Contexts['settings'] & { pool: Pool; addresses: DatabaseAddresses }
  lake: Contexts['settings'] & { lake: LakeStore }
}
export type Needs = keyof Contexts

/** `read` returns undefined for a wrong text, and `must` completes the refusal. */
export interface Option<T> {
  value: string
  help: string
  must: string
  read: (text: string) => T | undefined
  isRepeatable?: boolean
  /** Whether the command refuses to run without the option. */
  isRequired?: boolean
}

export interface Flag {
  help: string
}

export type Options = Record<string, Option<unknown> | Flag>
/** The options' values: undefined for an absent option, a list for a repeatable one. */
export type Values<O extends Options> = {
  readonly [K in keyof O]: O[K] extends { isRepeatable: true; read: (text: string) => infer T }
    ? Exclude<T, undefined>[] | undefined
    : O[K] extends Option<infer T>
      ? T | undefined
      : boolean
}

/** An argument. `or` is the flag that can replace it; exactly one of the two must be given. */
export interface Argument {
  name: string
  or?: string
}

/** A command. Parsing, the help and the README's table use these properties. */
interface CommandDefinition<N extends Needs, O extends Options> {
  name: string
  arguments?: readonly Argument[]
  options?: O
  /** A clause without a full stop. Code is in backticks. */
  help: string
  /** The default is `database`. */
  needs?: N
  /** Describes a contradiction between options; null if there is none. */
  findContradiction?(values: Values<O>): string | null
  /** Returns the exit status. Imports its code when it is called, so that help does not load a whole store. */
  run(context: Contexts[N], values: Values<O>, ...args: string[]): Promise<number>
}

/** The options of this command are checked when it is called. */
export type Command = Required<CommandDefinition<Needs, Options>>

/**
 * Defines a command and erases its option types. `readCommandLine` reads the values by the options, and `runCommand`
 * opens the context by the needs.
 */
export function defineCommand<N extends Needs = 'database', O extends Options = Record<never, never>>(
  definition: CommandDefinition<N, O>,
): Command {
  return { arguments: [], options: {}, needs: 'database', findContradiction: () => null, ...definition } as unknown as Command
}

export class UsageError extends OperatorError {
  override readonly name = 'UsageError'
  override readonly exitStatus = 2
}
