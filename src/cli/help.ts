import type { Command, Flag, Option } from './command.ts'

const WIDTH = 120
const INDENT = 34

/** One line such as `storefront mail list [--status queued|sent|failed] …`. */
export function usageOf({ name, arguments: args, options }: Command): string {
  const standIns = args.flatMap(({ or }) => (or === undefined ? [] : [or]))
  const words = args.map((argument) => (argument.or === undefined ? argument.name : `${argument.name}|--${argument.or}`))
  const optional = Object.entries(options).filter(([option]) => !standIns.includes(option))
  return ['storefront', name, ...words, ...optional.map(([option, kind]) => usageOfOption(option, kind))].join(' ')
}

export function overview(commands: readonly Command[]): string {
  const example = commands[0]?.name ?? 'COMMAND'
  return `usage: storefront COMMAND

${commandList(commands)}

storefront help COMMAND, such as storefront help ${example}, or COMMAND --help, shows one command with its options.
storefront --version shows the version.
Settings come from the environment; docs/operate/settings.md lists them, and storefront config shows what is in effect.`
}

export function commandList(commands: readonly Command[]): string {
  return commands
    .map(({ name, arguments: args, help }) => entry([name, ...args.map((argument) => argument.name)].join(' '), plain(help)))
    .join('\n')
}

export function commandHelp(command: Command): string {
  const options = Object.entries(command.options).map(([name, option]) => entry(optionText(name, option), option.help))
  const help = plain(command.help)
  const sentence = help.charAt(0).toUpperCase() + help.slice(1)
  return [`usage: ${usageOf(command)}`, wrap(`${sentence}.`, 0), ...(options.length === 0 ? [] : [options.join('\n')])].join('\n\n')
}

/** Removes backticks, which mark names in the table of commands. */
function plain(help: string): string {
  return help.replaceAll('`', '')
}

function optionText(name: string, option: Option<unknown> | Flag): string {
  return 'read' in option ? `--${name} ${option.value}` : `--${name}`
}

function usageOfOption(name: string, option: Option<unknown> | Flag): string {
  const words = optionText(name, option)
  return 'read' in option && option.isRequired ? words : `[${words}]${repeated(option)}`
}

function repeated(option: Option<unknown> | Flag): string {
  return 'read' in option && option.isRepeatable ? '…' : ''
}

function entry(term: string, explanation: string): string {
  const lines = wrap(explanation, INDENT)
  return term.length + 4 > INDENT ? `  ${term}\n${' '.repeat(INDENT)}${lines}` : `${`  ${term}`.padEnd(INDENT)}${lines}`
}

/** Lines of at most WIDTH. All lines except the first are indented. */
function wrap(text: string, indent: number): string {
  const lines = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? ''
    if (line !== '' && indent + line.length + 1 + word.length > WIDTH) lines.push(word)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines.join(`\n${' '.repeat(indent)}`)
}
