import { parseArgs } from 'node:util'
import { UsageError } from './arguments.ts'

const OPTIONS = {
  role: { type: 'string', multiple: true },
  format: { type: 'string' },
  stock: { type: 'boolean' },
  status: { type: 'string' },
  order: { type: 'string' },
  limit: { type: 'string' },
  events: { type: 'string' },
  'all-failed': { type: 'boolean' },
  'allow-files': { type: 'boolean' },
  since: { type: 'string' },
  subscriber: { type: 'string' },
  date: { type: 'string' },
  json: { type: 'boolean' },
  write: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const
type OptionName = keyof typeof OPTIONS

/** Every command with the options that it takes beside --help, and what it takes besides options. */
const COMMANDS = {
  serve: { options: ['role'], least: 0, most: 0 },
  migrate: { options: [], least: 0, most: 0 },
  openapi: { options: [], least: 0, most: 0 },
  asyncapi: { options: ['write'], least: 0, most: 0 },
  'catalogue import': { options: ['format'], least: 1, most: 1 },
  'catalogue export': { options: ['format', 'stock'], least: 0, most: 0 },
  'admin create': { options: [], least: 1, most: 1 },
  'keys rotate': { options: [], least: 0, most: 0 },
  'mail list': { options: ['status', 'order', 'limit'], least: 0, most: 0 },
  'mail retry': { options: ['all-failed'], least: 0, most: 1 },
  'webhook add': { options: ['events'], least: 1, most: 1 },
  'webhook list': { options: [], least: 0, most: 0 },
  'webhook deliveries': { options: ['status', 'limit'], least: 1, most: 1 },
  'webhook redeliver': { options: ['all-failed'], least: 1, most: 2 },
  'webhook enable': { options: [], least: 1, most: 1 },
  'webhook rotate': { options: [], least: 1, most: 1 },
  'webhook remove': { options: [], least: 1, most: 1 },
  verify: { options: ['json'], least: 0, most: 0 },
  replay: { options: ['since', 'order', 'subscriber'], least: 0, most: 0 },
  'lake query': { options: ['allow-files'], least: 1, most: 1 },
  'lake compact': { options: ['date'], least: 0, most: 0 },
} as const satisfies Record<string, { options: readonly OptionName[]; least: number; most: number }>
export type CommandName = keyof typeof COMMANDS
export const COMMAND_NAMES = Object.keys(COMMANDS) as CommandName[]

/**
 * Which command is meant, what it is given, and its options. Throws UsageError, with the command where it is known, on a command,
 * option or number of arguments that does not exist, on an option given twice or without a value, and on a contradiction.
 */
export function readCommandLine(args: string[]) {
  // Not strict: an unknown option must name the command that does not take it.
  const { positionals, tokens } = parseArgs({ args, options: OPTIONS, allowPositionals: true, strict: false, tokens: true })
  const options = tokens.filter((token) => token.kind === 'option')
  const command = findCommand(positionals)
  const isHelp = options.some(({ name }) => name === 'help')
  if (command === undefined && !isHelp) {
    throw new UsageError(positionals.length === 0 ? 'which command?' : `there is no such command: ${positionals.join(' ')}`)
  }
  assertOptions(command, options)
  const { values } = parseStrictly(args, command)
  const rest = positionals.slice(command?.split(' ').length ?? 0)
  if (command !== undefined && !isHelp) {
    assertArguments(command, rest)
    assertNoContradiction(command, rest, values)
  }
  return { command, rest, values }
}

function findCommand([first = '', second = '']: string[]): CommandName | undefined {
  return COMMAND_NAMES.find((name) => name === first || name === `${first} ${second}`)
}

function assertOptions(command: CommandName | undefined, given: readonly { name: string; rawName: string; value?: string | undefined }[]) {
  const known: readonly string[] = command === undefined ? [] : COMMANDS[command].options
  const named = command ?? 'storefront --help'
  const names = new Set<string>()
  for (const { name, rawName, value } of given) {
    if (name !== 'help' && !known.includes(name)) {
      const takes = known.length === 0 ? 'no options' : known.map((option) => `--${option}`).join(', ')
      throw new UsageError(`${named} has no option ${rawName}; it takes ${takes}`, command)
    }
    if (names.has(name) && name !== 'role') throw new UsageError(`give ${rawName} once`, command)
    if (value === '') throw new UsageError(`${rawName} needs a value`, command)
    names.add(name)
  }
}

function parseStrictly(args: string[], command: CommandName | undefined) {
  try {
    return parseArgs({ args, options: OPTIONS, allowPositionals: true })
  } catch (error) {
    throw new UsageError((error as Error).message.replaceAll('\n', ' '), command)
  }
}

function assertArguments(command: CommandName, rest: readonly string[]): void {
  const { least, most } = COMMANDS[command]
  if (rest.length > most)
    throw new UsageError(
      `${command} takes ${most === 0 ? 'no argument' : `${most} at most`}; leave out ${rest.slice(most).join(' ')}`,
      command,
    )
  if (rest.length < least) throw new UsageError(`${command} lacks an argument: give all that its usage names`, command)
}

type Values = ReturnType<typeof parseStrictly>['values']

function assertNoContradiction(
  command: CommandName,
  rest: readonly string[],
  { 'all-failed': allFailed, order, subscriber, since }: Values,
) {
  const refuse = (message: string) => new UsageError(`${command}: ${message}`, command)
  if (command === 'mail retry' || command === 'webhook redeliver') {
    const namesEvent = rest.length === COMMANDS[command].most
    if (namesEvent === (allFailed === true)) throw refuse('give an event id or --all-failed, one of the two')
  }
  if (command === 'replay' && subscriber !== undefined) {
    if (order !== undefined) throw refuse('--order is for the topic; leave out --order or --subscriber')
    if (subscriber === 'lake' && since !== undefined) throw refuse('the lake finds by itself what it lacks; leave out --since')
  }
}
