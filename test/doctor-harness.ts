import assert from 'node:assert/strict'
import { examineStore } from '../src/app/doctor/examine-store.ts'
import type { Finding } from '../src/app/doctor/finding.ts'
import { readConfig } from '../src/config.ts'
import { TEST_SECRET } from './store.ts'

/** What doctor finds with these settings; no process is asked. */
export function examine(
  env: Record<string, string>,
  options: { timeoutMs?: number; now?: () => number; node?: string } = {},
): Promise<Finding[]> {
  const config = readConfig({ OPS_PORT: 'off', STOREFRONT_SECRET: TEST_SECRET, DATA_DIR: '/nonexistent', ...env })
  const { node = process.versions.node, ...others } = options
  return examineStore(config, { versions: { store: '0.1.0', node }, timeoutMs: 30_000, ...others })
}

/** Asserts that a check ends so; `found` and `remedy` match its only finding of that status. */
export function assertFinding(
  findings: readonly Finding[],
  check: string,
  status: Finding['status'],
  found: RegExp,
  remedy?: RegExp,
): void {
  const all = findings.filter((finding) => finding.check === check)
  const [one, ...others] = all.filter((finding) => finding.status === status)
  assert.ok(one !== undefined && others.length === 0, `${check} is not ${status}: ${JSON.stringify(all)}`)
  assert.match(one.found, found)
  assert.equal(one.remedy === null, status === 'ok')
  if (remedy !== undefined) assert.match(one.remedy ?? '', remedy)
}
