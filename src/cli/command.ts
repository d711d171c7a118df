import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import type { DatabaseAddresses } from '../db/addresses.ts'
import type { Pool } from '../db/pool.ts'
import { OperatorError } from '../errors.ts'
import type { LakeStore } from '../lake/lake-store.ts'

/** The status of a shell for a command that was interrupted: 128 and SIGINT. */
export const EXIT_INTERRUPTED = 130

/** The outputs of a command, and its exit. */
export interface Terminal {
  out: (line: string) => void
  err: (line: string) => void
  /** Ends the process at once. */
  exit: (status: number) => never
}

/** The context of each kind of command: an existing, migrated `database`; an existing `lake`. */
export interface Contexts {
  nothing: { terminal: Terminal }
  settings: Contexts['nothing'] & { config: Config; logger: Logger }
  database: Contexts['settings'] & { pool: Pool; addresses: DatabaseAddresses }
  lake: Contexts['settings'] & { lake: LakeStore }
}
export type Needs = keyof Contexts

/** An option with a value: `read` returns undefined for a wrong text, and `must` completes the refusal. */
export interface Option<T> {
  value: string
  help: string
  must: string
  read: (text: string) => T | undefined
  isRepeatable?: boolean
  /** The command refuses to run without it; the usage shows it so. */
  isRequired?: boolean
}

/** An option without a value. */
export interface Flag {
  help: string
}

export type Options = Record<string, Option<unknown> | Flag>
/** The values of options: undefined for an absent one, a list for a repeatable one. */
export type Values<O extends Options> = {
  readonly [K in keyof O]: O[K] extends { isRepeatable: true; read: (text: string) => infer T }
    ? Exclude<T, undefined>[] | undefined
    : O[K] extends Option<infer T>
      ? T | undefined
      : boolean
}

/** `or`: the flag that can replace it; exactly one of the two is given. */
export interface Argument {
  name: string
  or?: string
}

/** One command of `storefront`: the source of parsing, help and README's table. */
interface CommandDefinition<N extends Needs, O extends Options> {
  name: string
  arguments?: readonly Argument[]
  options?: O
  /** A clause without a full stop; code in backticks. */
  help: string
  /** `database` by default. */
  needs?: N
  /** Describes a contradiction between options, null for none. */
  findContradiction?(values: Values<O>): string | null
  /** Returns the exit status. Imports its code when it is called, so that help does not load a whole store. */
  run(context: Contexts[N], values: Values<O>, ...args: string[]): Promise<number>
}

/** A command whose options are checked when it is called. */
export type Command = Required<CommandDefinition<Needs, Options>>

/** Erases the option types of a command: `readCommandLine` reads values by its options, `runCommand` opens the context by its needs. */
export function defineCommand<N extends Needs = 'database', O extends Options = Record<never, never>>(
  definition: CommandDefinition<N, O>,
): Command {
  return { arguments: [], options: {}, needs: 'database', findContradiction: () => null, ...definition } as unknown as Command
}

/** The command line is wrong. */
export class UsageError extends OperatorError {
  override readonly name = 'UsageError'
  override readonly exitStatus = 2
}
