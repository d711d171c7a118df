import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type DataFolder, dataFolder } from '../src/db/embedded/data-folder.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { eventually } from './eventually.ts'

/** A data folder that does not exist yet. The test fails when a server still runs in it afterwards. */
export function makeDataFolder(t: Cleanup, name = 'data'): DataFolder {
  const parent = mkdtempSync(join(tmpdir(), 'storefront-test-'))
  onCleanup(t, async () => {
    await untilNoServer(parent)
    rmSync(parent, { recursive: true, force: true })
  })
  return dataFolder(join(parent, name))
}

export interface ServerProcess {
  pid: number
  uid: number
  program: string
}

/** The processes of this folder's PostgreSQL server and of the shell that supervises it. */
export function serverProcesses(path: string): ServerProcess[] {
  const list = execFileSync('ps', ['-eo', 'pid=,uid=,args='], { encoding: 'utf8', maxBuffer: 100_000_000 })
  return list.split('\n').flatMap((line) => {
    const [, pid, uid, args = ''] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? []
    const program = /^(sh) -c|\/(postgres) -D/.exec(args)
    if (program === null || !args.includes(path)) return []
    return [{ pid: Number(pid), uid: Number(uid), program: program[1] ?? program[2] ?? '' }]
  })
}

export async function untilNoServer(path: string): Promise<void> {
  await eventually(async () => serverProcesses(path).length === 0, { what: `the end of the server in ${path}` })
}
