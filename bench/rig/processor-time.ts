// The processor time of processes. Other programs on the machine affect it far less than a rate.
import { readdirSync, readFileSync } from 'node:fs'

/** Linux has this value on all platforms that Node supports. */
const TICKS_PER_SECOND = 100

interface Process {
  pid: number
  parent: number
  /** The processor time, including exited children. */
  seconds: number
}

/** The seconds of processor time of these processes and their descendants since their start, from Linux's /proc. */
export function processorSeconds(roots: readonly number[]): number {
  return processTrees(roots).reduce((sum, { seconds }) => sum + seconds, 0)
}

/** The process, followed by its descendants. */
export function processTree(root: number): Process[] {
  return processTrees([root])
}

function processTrees(roots: readonly number[]): Process[] {
  const processes = readdirSync('/proc').flatMap((name) => readProcess(name) ?? [])
  const found: Process[] = []
  let generation = processes.filter(({ pid }) => roots.includes(pid))
  while (generation.length > 0) {
    const pids = new Set(generation.map(({ pid }) => pid))
    found.push(...generation)
    generation = processes.filter(({ parent }) => pids.has(parent))
  }
  return found
}

/** The parent of a process; 0 if it has none. */
export function parentOf(pid: number): number {
  return readProcess(String(pid))?.parent ?? 0
}

function readProcess(pid: string): Process | null {
  if (!/^\d+$/.test(pid)) return null
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch (error) {
    // The process has exited since /proc was listed.
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return null
    throw error
  }
  // The format of proc(5): the command in parentheses may contain spaces. State and parent follow it. Fields 14 to 17
  // are utime, stime, cutime and cstime.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0)
  return { pid: Number(pid), parent: Number(fields[1]), seconds: ticks / TICKS_PER_SECOND }
}
