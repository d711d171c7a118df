import { existsSync, statfsSync } from 'node:fs'
import { join } from 'node:path'
import type { DataFolder } from './data-folder.ts'

/** Two WAL segments. With less space PostgreSQL stops soon and cannot start after a crash. */
const MIN_FREE_BYTES = 32 * 1024 * 1024
const MEGABYTE = 1_000_000
const SQLITE_FULL = 13

export function findFullDisk({ path, cluster }: DataFolder): string | null {
  for (const folder of [path, cluster, join(cluster, 'pg_wal')]) {
    if (!existsSync(folder)) continue
    const { bavail, bsize, files, ffree } = statfsSync(folder)
    if (bavail * bsize < MIN_FREE_BYTES) {
      return `the disk of ${folder} is full (${Math.floor((bavail * bsize) / MEGABYTE)} MB free): make room on it`
    }
    if (files > 0 && ffree === 0) return `the disk of ${folder} has no room for another file (no inodes free): make room on it`
  }
  return null
}

export function isDiskFull(error: unknown): boolean {
  const { code, errcode } = (error ?? {}) as { code?: string; errcode?: number }
  return code === 'ENOSPC' || code === 'EDQUOT' || errcode === SQLITE_FULL
}
