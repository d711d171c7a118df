import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ROLES } from '../config.ts'
import { SUBSCRIBERS } from '../subscribers.ts'
import { type Command, type Flag, type Option, UsageError } from './command.ts'
import { readCommandLine } from './command-line.ts'
import { COMMANDS } from './commands.ts'
import { commandHelp, overview, usageOf } from './help.ts'
import type { GivenTime } from './options.ts'

const VERSION = '1.2.3'

/**
 * A valid and an invalid value of each option, by the value's name in the help. Without an invalid value, every text is
 * valid.
 */
const TEXTS: Record<string, { right: string; wrong?: string }> = {
  NAME: { right: 'windows-1252', wrong: 'klingon' },
  EUR: { right: 'PYG', wrong: 'eur' },
  FILE: { right: 'a.json' },
  [ROLES.join('|')]: { right: 'api', wrong: 'kitchen' },
  'en|de|fr|es': { right: 'de', wrong: 'it' },
  'ndjson|csv': { right: 'csv', wrong: 'xml' },
  'queued|sent|failed': { right: 'failed', wrong: 'lost' },
  'queued|delivered|failed': { right: 'failed', wrong: 'lost' },
  'ID|NUMBER': { right: '100001', wrong: 'x' },
  ID: { right: '01990000-0000-7000-8000-000000000000', wrong: '100001' },
  N: { right: '5', wrong: '0' },
  'TYPE,…|all': { right: 'all' },
  TIME: { right: '2026-03-01', wrong: 'yesterday' },
  'YYYY-MM-DD': { right: '2026-03-01', wrong: '2026-3-1' },
  [SUBSCRIBERS.flatMap(({ name }) => (name === 'catalogue-lake' ? [] : [name])).join('|')]: { right: 'email', wrong: 'nobody' },
  FOLDER: { right: 'folder' },
  HOURS: { right: '0', wrong: '87601' },
  DURATION: { right: '90s', wrong: '90' },
  'SCOPE,…': { right: 'orders:read, stock:write', wrong: 'orders:read,access:write' },
  'support|warehouse|catalogue|analyst|admin': { right: 'support', wrong: 'customer' },
  'ID|system': { right: 'system' },
  ACTION: { right: 'setStock' },
  SHOP: { right: 'old-shop', wrong: 'Old shop' },
  SUBJECT_ID: { right: 'signing key' },
  URL: { right: 'postgres://shop@db.example/shop', wrong: 'https://db.example/shop' },
}

/** The command's words with all arguments and no options. */
function rightCall({ name, arguments: args }: Command): string[] {
  return [...name.split(' '), ...args.map((argument) => argument.name.toLowerCase())]
}

/** Like `rightCall`, with the option, and without the argument that a flag replaces. */
function callWith(command: Command, option: string): string[] {
  const { name, arguments: args } = command
  return [...name.split(' '), ...args.filter(({ or }) => or !== option).map((argument) => argument.name.toLowerCase())]
}

/** The values, with times as instants. */
const plain = (values: object) =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, typeof value === 'function' ? value('UTC') : value]))

function read(args: readonly string[]) {
  const request = readCommandLine(args, VERSION)
  return request.kind === 'run' ? request : assert.fail(`prints ${request.text}`)
}

function textOf(args: readonly string[]): string {
  const request = readCommandLine(args, VERSION)
  return request.kind === 'print' ? request.text : assert.fail(`runs ${request.command.name}`)
}

function refusalOf(args: readonly string[]): string {
  try {
    readCommandLine(args, VERSION)
  } catch (error) {
    assert.ok(error instanceof UsageError, String(error))
    assert.equal(error.exitStatus, 2)
    return error.message
  }
  return assert.fail(`accepted: ${args.join(' ')}`)
}

const placeholderOf = (option: Option<unknown> | Flag): string | null => ('read' in option ? option.value : null)

test('SQL that begins with a comment is an argument', () => {
  const { args, values } = read(['lake', 'query', '--json', '-- Sales\nselect 1'])
  assert.deepEqual([args, values.json], [[' -- Sales\nselect 1'], true])
  assert.deepEqual(read(['lake', 'query', '--Sales\nselect 1']).args, [' --Sales\nselect 1'])
})

test('every command accepts its options, refuses all others, and shows its own usage with the refusal', () => {
  const all = new Map(COMMANDS.flatMap(({ options }) => Object.entries(options)))
  for (const command of COMMANDS) {
    const call = rightCall(command)
    assert.equal(read(call).command, command)
    for (const unknown of [['--bogus'], ['--bogus=1'], ['-x'], ['--bogus', 'value'], ['--version']]) {
      const [first = '', second = '', ...others] = refusalOf([...call, ...unknown]).split('\n')
      assert.ok(first.startsWith(`${command.name} has no option ${unknown[0]?.split('=')[0]}; it takes `), first)
      assert.deepEqual([second, others], [`usage: ${usageOf(command)}`, []])
    }
    for (const [name, option] of all) {
      const known = command.options[name]
      const value = placeholderOf(known ?? option)
      const { right, wrong } = value === null ? { right: undefined } : (TEXTS[value] ?? assert.fail(value))
      const given = [`--${name}`, ...(right === undefined ? [] : [right])]
      if (known === undefined) {
        assert.match(refusalOf([...call, ...given]), new RegExp(`^${command.name} has no option --${name}; it takes `))
        continue
      }
      const complete = callWith(command, name)
      const { values } = read([...complete, ...given])
      assert.notEqual(values[name], undefined)
      assert.deepEqual(plain(read([...given, ...complete]).values), plain(values))
      if (!('read' in known)) {
        assert.match(refusalOf([...complete, `--${name}=no`]), /^--[a-z-]+ takes no value\n/)
        assert.match(refusalOf([...complete, ...given, ...given]), /^give --[a-z-]+ once\n/)
        continue
      }
      for (const lacking of [[`--${name}`], [`--${name}=`], [`--${name}`, '--json']]) {
        assert.match(refusalOf([...complete, ...lacking]), /^--[a-z-]+ needs a value\n/)
      }
      if (known.isRepeatable) assert.deepEqual(read([...complete, ...given, ...given]).values[name], [right, right])
      else assert.match(refusalOf([...complete, ...given, ...given]), /^give --[a-z-]+ once\n/)
      const own = 'read' in known ? TEXTS[known.value]?.wrong : wrong
      if (own !== undefined) assert.ok(refusalOf([...complete, `--${name}=${own}`]).startsWith(`--${name} must ${known.must}\n`))
    }
  }
})

test('every command refuses one argument too many or too few', () => {
  for (const command of COMMANDS) {
    const call = rightCall(command)
    assert.match(refusalOf([...call, 'more']), /(takes no argument|takes \d at most); leave out more\n/)
    if (command.arguments.length > 0) assert.match(refusalOf(call.slice(0, -1)), /lacks an argument: |: give EVENT_ID or --all-failed/)
  }
})

test('refuses contradictory options', () => {
  const id = '01990000-0000-7000-8000-000000000000'
  for (const [args, message] of [
    [['mail', 'retry', 'event', '--all-failed'], /^mail retry: give EVENT_ID or --all-failed, one of the two\n/],
    [['mail', 'retry'], /^mail retry: give EVENT_ID or --all-failed, one of the two\n/],
    [['webhook', 'redeliver', 'id', 'event', '--all-failed'], /one of the two\n/],
    [['webhook', 'redeliver', 'id'], /one of the two\n/],
    [['webhook', 'redeliver', '--all-failed'], /^webhook redeliver lacks an argument: ID\n/],
    [['replay', '--subscriber', 'email', '--order', id], /leave out --order or --subscriber\n/],
    [['replay', '--subscriber', 'catalogue-webhook', '--order', id], /leave out --order or --subscriber\n/],
    [['replay', '--subscriber', 'lake', '--since', '2026-03-01'], /leave out --since\n/],
    [['replay', '--restored', '--order', id], /leave out --since, --order and --subscriber\n/],
  ] as const) {
    assert.match(refusalOf(args), message)
  }
})

test('refuses invalid values: unknown names, impossible dates, negative numbers, arguments without text', () => {
  for (const [args, message] of [
    [['replay', '--subscriber', 'nobody'], /^--subscriber must be one of email, webhook, [a-z, -]*lake; catalogue-lake cannot/],
    [
      ['replay', '--subscriber', 'catalogue-lake'],
      /; catalogue-lake cannot be rewound: storefront lake repair writes what the lake lacks\n/,
    ],
    [
      ['replay', '--since', '2026-02-30'],
      /^--since must be a time such as 2026-03-01T12:00:00Z, or a day or a time of the shop's clock such as 2026-03-01\n/,
    ],
    [['replay', '--since', '2026-02-30T12:00:00Z'], /^--since must be a time/],
    [['replay', '--since', '2026-02-28T24:00'], /^--since must be a time/],
    [['replay', '--since', '2026-02-28T25:00:00Z'], /^--since must be a time/],
    [['mail', 'list', '--limit', '-1'], /^--limit must be a whole number from 1 to 10000\n/],
    [['lake', 'query', ''], /^lake query lacks an argument: "select …"\n/],
    [['lake', 'query', ' \n'], /^lake query lacks an argument: "select …"\n/],
  ] as const) {
    assert.match(refusalOf(args), message)
  }
})

test("a day or time without an offset is in the shop's time zone, even across a clock change", () => {
  for (const [given, inVienna, inKathmandu] of [
    ['2028-02-29', '2028-02-28T23:00:00.000Z', '2028-02-28T18:15:00.000Z'],
    ['2026-03-29', '2026-03-28T23:00:00.000Z', '2026-03-28T18:15:00.000Z'],
    ['2026-03-30', '2026-03-29T22:00:00.000Z', '2026-03-29T18:15:00.000Z'],
    ['2026-10-25T12:00', '2026-10-25T11:00:00.000Z', '2026-10-25T06:15:00.000Z'],
    ['2026-12-31T23:59:59.5+02:00', '2026-12-31T21:59:59.500Z', '2026-12-31T21:59:59.500Z'],
  ] as const) {
    const { since } = read(['replay', '--since', given]).values as { since?: GivenTime }
    assert.deepEqual(
      ['Europe/Vienna', 'Asia/Kathmandu'].map((zone) => since?.(zone).toISOString()),
      [inVienna, inKathmandu],
      given,
    )
  }
})

test('refuses an unknown command in one line, or with the commands that begin like it', () => {
  assert.equal(refusalOf([]), 'which command? storefront help lists the commands')
  assert.equal(refusalOf(['--json']), 'which command? storefront help lists the commands')
  assert.equal(refusalOf(['drain', 'it']), 'there is no such command: drain it; storefront help lists the commands')
  assert.equal(refusalOf(['help', 'drain']), 'there is no such command: drain; storefront help lists the commands')
  const [first, ...others] = refusalOf(['webhook']).split('\n')
  assert.equal(first, 'webhook needs a second word; these begin with webhook:')
  const names = COMMANDS.map(({ name }) => name).filter((name) => name.startsWith('webhook '))
  assert.deepEqual(
    others.map((line) => / {2}(webhook \w+)/.exec(line)?.[1]),
    names,
  )
  assert.match(refusalOf(['lake', 'drain']), /^there is no such command: lake drain; these begin with lake:\n {2}lake query/)
})

test('shows all commands, those that begin with one word, or one command', () => {
  for (const args of [['help'], ['--help'], ['-h']]) assert.equal(textOf(args), overview(COMMANDS))
  for (const command of COMMANDS) {
    const words = command.name.split(' ')
    assert.ok(overview(COMMANDS).includes(`\n  ${command.name}`))
    for (const args of [
      ['help', ...words],
      [...words, '--help'],
      [...words, 'an argument', '-h', '--bogus'],
    ]) {
      assert.equal(textOf(args), commandHelp(command))
    }
    const help = commandHelp(command)
    assert.ok(help.startsWith(`usage: storefront ${command.name}`))
    for (const [name, option] of Object.entries(command.options)) assert.ok(help.includes(`--${name}`) && help.includes(option.help), name)
    assert.ok(help.split('\n').every((line) => line.startsWith('usage: ') || line.length <= 120))
  }
  const group = textOf(['help', 'webhook'])
  assert.match(group, /\n {2}webhook add URL /)
  assert.match(group, /such as storefront help webhook add,/)
  assert.doesNotMatch(group, /mail list/)
})

test('shows the version', () => {
  for (const args of [['--version'], ['-v']]) assert.equal(textOf(args), VERSION)
})

test('the usage shows alternatives and options that may be repeated', () => {
  const usages = COMMANDS.map(usageOf)
  assert.ok(usages.includes('storefront keys create NAME --scopes SCOPE,… [--expires-in-days N]'))
  assert.ok(usages.includes('storefront mail retry EVENT_ID|--all-failed'))
  assert.ok(usages.includes('storefront webhook redeliver ID EVENT_ID|--all-failed'))
  assert.ok(usages.includes(`storefront serve [--role ${ROLES.join('|')}]…`))
})
