import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { eventually } from './eventually.ts'

export const BIN = fileURLToPath(new URL('../bin/storefront.mjs', import.meta.url))

export interface CommandOptions {
  env?: Record<string, string>
  /** Standard input; none by default. */
  input?: string
  /** The Node.js that runs it, and the script. */
  node?: string
  bin?: string
  cwd?: string
  /** The user and group who run it. */
  uid?: number
}

export interface CommandResult {
  status: number | null
  stdout: string
  stderr: string
}

export function launch(
  args: readonly string[],
  { env = {}, node = process.execPath, bin = BIN, cwd, uid }: CommandOptions = {},
): ChildProcess {
  // The developer's own settings stay out.
  const environment = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    TMPDIR: process.env.TMPDIR,
    PORT: '0',
    OPS_PORT: '0',
    RATE_LIMITS: 'off',
    ...env,
  }
  return spawn(node, [bin, ...args], {
    env: environment,
    stdio: 'pipe',
    ...(cwd === undefined ? {} : { cwd }),
    ...(uid === undefined ? {} : { uid, gid: uid }),
  })
}

/** Runs `storefront` with these arguments until it ends. */
export async function runStorefront(t: Cleanup, args: readonly string[], options: CommandOptions = {}): Promise<CommandResult> {
  const child = launch(args, options)
  onCleanup(t, () => void child.kill('SIGKILL'))
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.setEncoding('utf8').on('data', (text) => {
      output[name] += text
    })
  }
  child.stdin?.on('error', () => {})
  child.stdin?.end(options.input ?? '')
  const [status] = await once(child, 'close')
  return { status, ...output }
}

/** A running `storefront serve`. */
export interface StoreProcess {
  pid: number
  /** The URL of its API. */
  url: string
  /** Its log so far. */
  logs: { level: number; msg: string; addresses?: { port: number }[] }[]
  /** Waits for a log message that matches. */
  untilLogged(message: RegExp): Promise<void>
  /** Sends a signal, waits for the end and returns the exit status, null after a kill. */
  end(signal: NodeJS.Signals): Promise<number | null>
}

/** Starts `storefront serve` and returns when it has logged `ready`, by default that its API answers. */
export async function serve(
  t: Cleanup,
  options: CommandOptions & { args?: readonly string[]; ready?: RegExp } = {},
): Promise<StoreProcess> {
  const child = launch(['serve', ...(options.args ?? [])], options)
  const ended = once(child, 'exit')
  const logs: StoreProcess['logs'] = []
  let errors = ''
  let isSilent = false
  // The last output may arrive after the process has ended.
  child.once('close', () => {
    isSilent = true
  })
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    errors += text
  })
  if (child.stdout !== null) createInterface(child.stdout).on('line', (line) => logs.push(JSON.parse(line)))
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal)
    const [status] = await ended
    return status as number | null
  }
  onCleanup(t, async () => void (await end('SIGTERM')))
  const untilLogged = async (message: RegExp) => {
    await eventually(
      async () => {
        if (logs.some(({ msg }) => message.test(msg))) return true
        if (isSilent) throw new Error(`the store ended: ${errors}${JSON.stringify(logs)}`)
        return false
      },
      { what: `the log line ${message}`, timeoutMs: 120_000 },
    )
  }
  await untilLogged(options.ready ?? /^Storefront answers/)
  const port = logs.find(({ addresses }) => addresses !== undefined)?.addresses?.[0]?.port
  return { pid: child.pid ?? 0, url: `http://127.0.0.1:${port}`, logs, untilLogged, end }
}
