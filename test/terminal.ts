import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** Why a test cannot have a pseudo terminal; false when it can. */
export const NO_TERMINAL = spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux')
  ? false
  : 'the program script of util-linux is not on the PATH'

/** Runs a command as somebody who types it: in a pseudo terminal, whose foreground group gets what is typed. */
export function runInTerminal(t: TestContext, command: string, settings: Record<string, string> = {}) {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, SHELL: '/bin/sh', ...settings }
  const child = spawn('script', ['--quiet', '--return', '--flush', '--command', `exec ${command}`, '/dev/null'], {
    cwd: ROOT,
    env,
    stdio: 'pipe',
  })
  const ended = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text
  })
  child.stderr.resume()
  t.after(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
    await ended
  })
  return {
    /** What the terminal has received so far, with control characters. */
    get output() {
      return output
    },
    get lines() {
      return output.split(/\r?\n/)
    },
    hasEnded: () => child.exitCode !== null,
    ended,
    type: (keys: string) => void child.stdin.write(keys),
  }
}

/** The store in a pseudo terminal, when it answers. */
export async function startInTerminal(t: TestContext, command: string, settings: Record<string, string>) {
  const port = await freePort()
  const terminal = runInTerminal(t, command, { PORT: String(port), OPS_PORT: 'off', ...settings })
  await eventually(async () => {
    assert.equal(terminal.hasEnded(), false, terminal.output)
    return terminal.output.includes('Storefront answers')
  })
  return Object.assign(terminal, { port })
}
