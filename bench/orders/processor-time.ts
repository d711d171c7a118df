// The processor time of processes: other programs on the machine change it far less than a rate.
import { readdirSync, readFileSync } from 'node:fs'

/** Linux has one value on all platforms that Node runs on. */
const TICKS_PER_SECOND = 100

/** Seconds that these processes and their descendants have used since they started, with children that have exited. From Linux's /proc. */
export function processorSeconds(roots: readonly number[]): number {
  const processes = readdirSync('/proc').flatMap((name) => readProcess(name) ?? [])
  let seconds = 0
  let generation = processes.filter(({ pid }) => roots.includes(pid))
  while (generation.length > 0) {
    const pids = new Set(generation.map(({ pid }) => pid))
    seconds += generation.reduce((sum, process) => sum + process.seconds, 0)
    generation = processes.filter(({ parent }) => pids.has(parent))
  }
  return seconds
}

/** The parent of a process, 0 without one. */
export function parentOf(pid: number): number {
  return readProcess(String(pid))?.parent ?? 0
}

function readProcess(pid: string): { pid: number; parent: number; seconds: number } | null {
  if (!/^\d+$/.test(pid)) return null
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch (error) {
    // It has exited since /proc was listed.
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return null
    throw error
  }
  // proc(5): the command, in parentheses, may have spaces. State and parent follow; utime, stime, cutime and cstime are fields 14 to 17.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0)
  return { pid: Number(pid), parent: Number(fields[1]), seconds: ticks / TICKS_PER_SECOND }
}
