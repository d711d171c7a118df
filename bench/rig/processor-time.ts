// The processor time of processes: other programs on the machine change it far less than a rate.
import { readdirSync, readFileSync } from 'node:fs'

/** Linux has one value on all platforms that Node runs on. */
const TICKS_PER_SECOND = 100

interface Process {
  pid: number
  parent: number
  /** Processor time, exited children included. */
  seconds: number
}

/** Seconds that these processes and their descendants have used since they started. From Linux's /proc. */
export function processorSeconds(roots: readonly number[]): number {
  return processTrees(roots).reduce((sum, { seconds }) => sum + seconds, 0)
}

/** The process and its descendants, itself first. */
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

/** The parent of a process, 0 without one. */
export function parentOf(pid: number): number {
  return readProcess(String(pid))?.parent ?? 0
}

function readProcess(pid: string): Process | null {
  if (!/^\d+$/.test(pid)) return null
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch (error) {
    // It has exited since /proc was listed.
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return null
    throw error
  }
  // proc(5): the command, in parentheses, may have spaces. State and parent follow; utime, stime, cutime and cstime
  // are fields 14 to 17.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0)
  return { pid: Number(pid), parent: Number(fields[1]), seconds: ticks / TICKS_PER_SECOND }
}
