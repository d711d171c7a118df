import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Cleanup, onCleanup } from './cleanup.ts'

/**
 * Mounts a disk of limited size on the folder until the test ends. Returns the reason when this machine cannot, null
 * otherwise.
 */
export function mountTmpfs(t: Cleanup, folder: string, megabytes: number): string | null {
  mkdirSync(folder, { recursive: true })
  const { status, stderr, error } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m,mode=755`, 'tmpfs', folder])
  if (status !== 0) return `no tmpfs can be mounted here: ${error?.message ?? String(stderr).trim()}`
  onCleanup(t, () => void spawnSync('umount', ['-l', folder]))
  return null
}

const hasTmpfs = (() => {
  const probe = mkdtempSync(join(tmpdir(), 'storefront-tmpfs-'))
  try {
    const isMounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', probe]).status === 0
    if (isMounted) spawnSync('umount', [probe])
    return isMounted
  } finally {
    rmSync(probe, { recursive: true })
  }
})()

/**
 * Why tests with a full disk are skipped; false where they run. Mounting takes root and a machine that allows it, in
 * CI too.
 */
export const NO_TMPFS = hasTmpfs ? false : 'no tmpfs can be mounted here'

/** Fills the disk of the folder to the last byte. Returns the path of the filler file. */
export function fillDisk(folder: string): string {
  const ballast = join(folder, 'lost+found')
  const { bavail, bsize } = statfsSync(folder)
  try {
    writeFileSync(ballast, Buffer.alloc(bavail * bsize + 1_000_000))
  } catch (error) {
    // The disk is full.
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  }
  return ballast
}
