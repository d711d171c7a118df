import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Cleanup, onCleanup } from './cleanup.ts'

/** Makes an empty folder, which is removed when the test ends. */
export function makeTestFolder(t: Cleanup, prefix = 'storefront-test-'): string {
  const folder = mkdtempSync(join(tmpdir(), prefix))
  onCleanup(t, () => rmSync(folder, { recursive: true, force: true }))
  return folder
}
