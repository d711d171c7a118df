import { spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { type Cleanup, onCleanup } from './cleanup.ts'

/**
 * Mounts a disk that never answers until the test ends, as a network disk whose server is unavailable: a FUSE file
 * system without a program that serves it. Every call that uses the folder hangs, so only a process that may be
 * killed may use it. Returns the reason when this machine cannot (mounting takes root and FUSE), null otherwise.
 */
export function mountDeadDisk(t: Cleanup, folder: string): string | null {
  mkdirSync(folder, { recursive: true })
  let device: number
  try {
    device = openSync('/dev/fuse', 'r+')
  } catch (error) {
    return `no FUSE here: ${(error as Error).message}`
  }
  const options = 'fd=3,rootmode=40000,user_id=0,group_id=0'
  const mount = spawnSync('mount', ['-i', '-t', 'fuse', '-o', options, 'dead', folder], { stdio: ['ignore', 'ignore', 'pipe', device] })
  if (mount.status !== 0) {
    closeSync(device)
    return `no FUSE here: ${mount.error?.message ?? String(mount.stderr).trim()}`
  }
  onCleanup(t, () => {
    spawnSync('umount', ['-l', folder])
    // Calls that hang end with an error.
    closeSync(device)
  })
  return null
}
