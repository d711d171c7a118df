import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { setPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { CommandOutcome, RunCommand } from '../audit/audit-runner.ts'
import { OperatorError } from '../errors.ts'

const PROGRAM = fileURLToPath(new URL('../../bin/storefront.mjs', import.meta.url))
const END_WITH_PARENT = new URL('../../bin/end-with-parent.mjs', import.meta.url).href
/** The process priority, lower than that of requests and the pipeline. */
const PRIORITY = 10
const MAX_OUTPUT_BYTES = 32 * 1_048_576

/** Uses the settings of this process. Throws OperatorError when the command prints more than 32 MiB. */
export const runCommandProcess: RunCommand = async (args, { signal }) => {
  const folder = await mkdtemp(join(tmpdir(), 'storefront-command-'))
  try {
    return await runIn(folder, args, signal)
  } finally {
    // A killed command leaves files in the folder.
    await rm(folder, { recursive: true, force: true })
  }
}

/**
 * Runs a command. `folder` is for its temporary files. The command removes the folder itself if this process is killed.
 */
async function runIn(folder: string, args: readonly string[], signal: AbortSignal): Promise<CommandOutcome> {
  signal.throwIfAborted()
  const child = spawn(process.execPath, ['--import', END_WITH_PARENT, PROGRAM, ...args], {
    stdio: 'pipe',
    // biome-ignore lint/style/noProcessEnv: the command reads the settings of this process itself
    env: { ...process.env, TMPDIR: folder },
  })
  if (child.pid !== undefined) setPriority(child.pid, PRIORITY)
  const kill = () => void child.kill('SIGKILL')
  signal.addEventListener('abort', kill)
  const output = { stdout: '', stderr: '' }
  let bytes = 0
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      bytes += text.length
      if (bytes > MAX_OUTPUT_BYTES) kill()
      else output[name] += text
    })
  }
  // Standard input stays open while this process lives. The command ends once it closes.
  child.stdin.on('error', () => {})
  try {
    const status = await new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve))
    signal.throwIfAborted()
    if (bytes > MAX_OUTPUT_BYTES) throw new OperatorError('the command printed more than 32 MiB')
    return { status, ...output }
  } finally {
    signal.removeEventListener('abort', kill)
    child.stdin.destroy()
  }
}
