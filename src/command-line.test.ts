import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { UsageError } from './arguments.ts'
import { COMMAND_NAMES, type CommandName, readCommandLine } from './command-line.ts'
import { USAGE, usageOf } from './usage.ts'

const OPTIONS = {
  role: 'api',
  format: 'csv',
  status: 'failed',
  stock: null,
  order: '7',
  limit: '5',
  events: 'all',
  'all-failed': null,
  'allow-files': null,
  since: '2026-03-01',
  subscriber: 'email',
  date: '2026-03-01',
  json: null,
  write: 'folder',
} as const

/** What each command takes by its usage. */
function documentedOptions(command: CommandName): string[] {
  return [...usageOf(command).matchAll(/--([a-z-]+)/g)].map(([, name = '']) => name)
}

/** A right call of the command without options. */
function rightCall(command: CommandName): string[] {
  const [, usage = ''] = usageOf(command).split(`storefront ${command}`)
  const names = /^(?: [A-Z_"][^ [-]*)+/.exec(usage.replace('|--all-failed', ''))?.[0].trim() ?? ''
  return [
    ...command.split(' '),
    ...(names === '' ? [] : names.startsWith('"') ? ['select 1'] : names.split(' ')).map((name) => name.toLowerCase()),
  ]
}

function refusalOf(args: string[]): UsageError {
  try {
    readCommandLine(args)
  } catch (error) {
    assert.ok(error instanceof UsageError, String(error))
    assert.doesNotMatch(error.message, /\n/)
    return error
  }
  return assert.fail(`accepted: ${args.join(' ')}`)
}

test('the usage, the command line and main.ts know the same commands', () => {
  const main = readFileSync(new URL('main.ts', import.meta.url), 'utf8')
  const handled = [...main.matchAll(/case '([a-z ]+)':/g)].map(([, name]) => name)
  assert.deepEqual([...COMMAND_NAMES].sort(), handled.sort())
  for (const command of COMMAND_NAMES) assert.notEqual(usageOf(command), USAGE, command)
})

test('every command takes the options of its usage and refuses all others, also unknown ones', () => {
  for (const command of COMMAND_NAMES) {
    const call = rightCall(command)
    assert.equal(readCommandLine(call).command, command)
    for (const unknown of [['--bogus'], ['--bogus=1'], ['-x'], ['--bogus', 'value']]) {
      const refusal = refusalOf([...call, ...unknown])
      assert.ok(refusal.message.startsWith(`${command} has no option ${unknown[0]?.split('=')[0]}; it takes `), refusal.message)
      assert.equal(refusal.command, command)
    }
    for (const [name, value] of Object.entries(OPTIONS)) {
      const args = [`--${name}`, ...(value === null ? [] : [value])]
      if (!documentedOptions(command).includes(name)) {
        assert.match(refusalOf([...call, ...args]).message, new RegExp(`^${command} has no option --${name}; it takes `))
        assert.match(refusalOf([...args, ...call]).message, new RegExp(`^${command} has no option --${name}; it takes `))
      } else {
        const complete = name === 'all-failed' ? call.slice(0, -1) : call
        assert.equal(readCommandLine([...complete, ...args]).command, command)
        if (name !== 'role') assert.match(refusalOf([...complete, ...args, ...args]).message, /^give --[a-z-]+ once$/)
        if (value === null) assert.match(refusalOf([...complete, `--${name}=no`]).message, /does not take an argument/)
        else assert.match(refusalOf([...complete, `--${name}=`]).message, /^--[a-z-]+ needs a value$/)
        if (value !== null) assert.match(refusalOf([...complete, `--${name}`]).message, /argument missing/)
      }
    }
  }
})

test('every command refuses one argument too many, and one too few', () => {
  for (const command of COMMAND_NAMES) {
    const call = rightCall(command)
    assert.match(refusalOf([...call, 'more']).message, /(takes no argument|takes \d at most); leave out more$/)
    if (call.length > command.split(' ').length) refusalOf(call.slice(0, -1))
  }
})

test('refuses what contradicts itself', () => {
  for (const [args, message] of [
    [['mail', 'retry', 'event', '--all-failed'], /^mail retry: give an event id or --all-failed, one of the two$/],
    [['mail', 'retry'], /^mail retry: give an event id or --all-failed, one of the two$/],
    [['webhook', 'redeliver', 'id', 'event', '--all-failed'], /one of the two$/],
    [['webhook', 'redeliver', 'id'], /one of the two$/],
    [['webhook', 'redeliver', '--all-failed'], /^webhook redeliver lacks an argument/],
    [['replay', '--subscriber', 'email', '--order', 'id'], /leave out --order or --subscriber$/],
    [['replay', '--subscriber', 'lake', '--since', '2026-03-01'], /leave out --since$/],
    [[], /^which command\?$/],
    [['lake'], /^there is no such command: lake$/],
    [['lake', 'drain'], /^there is no such command: lake drain$/],
    [['--json'], /^which command\?$/],
    [['--help', '--bogus'], /^storefront --help has no option --bogus/],
  ] as const) {
    assert.match(refusalOf([...args]).message, message)
  }
})

test('asks for help with and without a command', () => {
  for (const args of [['--help'], ['-h'], ['mail', 'retry', '--help'], ['no', 'command', '--help']]) {
    assert.equal(readCommandLine(args).values.help, true)
  }
})

test('shows the usage of the command that was called wrongly, and all of it otherwise', () => {
  assert.match(usageOf('replay'), /^usage: storefront replay \[--since TIME\] \[--order ID\] .*\nstorefront replay --subscriber NAME/)
  assert.match(usageOf('asyncapi'), /into a folder$/)
  assert.equal(usageOf(undefined), USAGE)
})
