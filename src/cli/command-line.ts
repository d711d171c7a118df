import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'
import { type Command, type Options, UsageError, type Values } from './command.ts'
import { COMMANDS } from './commands.ts'
import { commandHelp, commandList, overview, usageOf } from './help.ts'

/** A text to print, or a command with its arguments and option values. */
export type Request = { kind: 'print'; text: string } | { kind: 'run'; command: Command; args: readonly string[]; values: Values<Options> }

interface GivenOption {
  name: string
  rawName: string
  value?: string | undefined
  inlineValue?: boolean | undefined
}

type Refuse = (problem: string) => UsageError

const SEE_HELP = 'storefront help lists the commands'

/** Throws UsageError for what the table of commands does not allow. */
export function readCommandLine(argv: readonly string[], version: string): Request {
  // Parsing is not strict, because the refusal of an unknown option must name the command.
  const { positionals, tokens } = parseArgs({
    // SQL that begins with a comment is not an option.
    args: argv.map((text) => (/^--(\s|[^\n]*\n)/.test(text) ? ` ${text}` : text)),
    options: knownOptions(),
    allowPositionals: true,
    strict: false,
    tokens: true,
  })
  const given = tokens.filter((token) => token.kind === 'option')
  const isAsked = (name: string) => given.some((option) => option.name === name)
  if (positionals[0] === 'help') return { kind: 'print', text: helpOn(positionals.slice(1)) }
  if (isAsked('help')) return { kind: 'print', text: helpOn(positionals) }
  if (positionals.length === 0 && isAsked('version')) return { kind: 'print', text: version }
  const command = findCommand(positionals)
  if (command === undefined) throw noCommand(positionals)
  const refuse: Refuse = (problem) => new UsageError(`${problem}\nusage: ${usageOf(command)}`)
  const args = positionals.slice(command.name.split(' ').length)
  const values = readOptions(command, given, refuse)
  checkArguments(command, args, values, refuse)
  const contradiction = command.findContradiction(values)
  if (contradiction !== null) throw refuse(`${command.name}: ${contradiction}`)
  return { kind: 'run', command, args, values }
}

function knownOptions(): ParseArgsOptionsConfig {
  const known: ParseArgsOptionsConfig = { help: { type: 'boolean', short: 'h' }, version: { type: 'boolean', short: 'v' } }
  for (const { options } of COMMANDS) {
    for (const [name, option] of Object.entries(options)) known[name] = { type: 'read' in option ? 'string' : 'boolean', multiple: true }
  }
  return known
}

function findCommand([first = '', second = '']: readonly string[]): Command | undefined {
  return COMMANDS.find(({ name }) => name === first || name === `${first} ${second}`)
}

function findGroup([first = '']: readonly string[]): Command[] {
  return COMMANDS.filter(({ name }) => name.startsWith(`${first} `))
}

function noCommand(positionals: readonly string[]): UsageError {
  if (positionals.length === 0) return new UsageError(`which command? ${SEE_HELP}`)
  const group = findGroup(positionals)
  if (group.length === 0) return new UsageError(`there is no such command: ${positionals.join(' ')}; ${SEE_HELP}`)
  const [name, problem = ''] = positionals
  const mistake = problem === '' ? `${name} needs a second word` : `there is no such command: ${name} ${problem}`
  return new UsageError(`${mistake}; these begin with ${name}:\n${commandList(group)}`)
}

function helpOn(words: readonly string[]): string {
  if (words.length === 0) return overview(COMMANDS)
  const command = findCommand(words)
  if (command !== undefined) return commandHelp(command)
  const group = words.length === 1 ? findGroup(words) : []
  if (group.length === 0) throw noCommand(words)
  return overview(group)
}

function readOptions(command: Command, given: readonly GivenOption[], refuse: Refuse): Values<Options> {
  const values: Record<string, unknown> = {}
  for (const [name, option] of Object.entries(command.options)) {
    if (!('read' in option)) values[name] = false
  }
  for (const { name, rawName, value, inlineValue } of given) {
    const option = command.options[name]
    if (option === undefined) {
      const names = Object.keys(command.options).map((known) => `--${known}`)
      throw refuse(`${command.name} has no option ${rawName}; it takes ${names.length === 0 ? 'no options' : names.join(', ')}`)
    }
    if (!('read' in option)) {
      if (inlineValue) throw refuse(`${rawName} takes no value`)
      if (values[name] === true) throw refuse(`give ${rawName} once`)
      values[name] = true
      continue
    }
    // This token is another option instead of a value. A negative number counts as a wrong value.
    const isOption = !inlineValue && value !== undefined && /^-(?!\d)/.test(value)
    if (value === undefined || value === '' || isOption) throw refuse(`${rawName} needs a value`)
    const read = option.read(value)
    if (read === undefined) throw refuse(`${rawName} must ${option.must}`)
    if (values[name] !== undefined && !option.isRepeatable) throw refuse(`give ${rawName} once`)
    values[name] = option.isRepeatable ? [...((values[name] as unknown[] | undefined) ?? []), read] : read
  }
  return values as Values<Options>
}

function checkArguments(command: Command, args: readonly string[], values: Values<Options>, refuse: Refuse): void {
  const { name, arguments: wanted } = command
  if (args.length > wanted.length) {
    const most = wanted.length === 0 ? 'no argument' : `${wanted.length} at most`
    throw refuse(`${name} takes ${most}; leave out ${args.slice(wanted.length).join(' ')}`)
  }
  for (const [index, argument] of wanted.entries()) {
    const isGiven = (args[index] ?? '').trim() !== ''
    if (argument.or === undefined) {
      if (!isGiven) throw refuse(`${name} lacks an argument: ${argument.name}`)
    } else if (isGiven === (values[argument.or] === true)) {
      throw refuse(`${name}: give ${argument.name} or --${argument.or}, one of the two`)
    }
  }
}
