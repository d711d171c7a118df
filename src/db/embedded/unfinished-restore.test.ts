import assert from 'node:assert/strict'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { makeTestFolder } from '../../../test/test-folder.ts'
import { dataFolder } from './data-folder.ts'
import { markRestored, resumeRecovery } from './unfinished-restore.ts'

const SEGMENT = '000000010000000000000007'

/** A restored cluster as an interrupted server leaves it. `state` is that of pg_control. */
function interruptedRestore(t: TestContext, state: number) {
  const folder = dataFolder(makeTestFolder(t, 'storefront-unfinished-'))
  for (const name of ['global', 'pg_wal']) mkdirSync(join(folder.cluster, name), { recursive: true })
  const control = Buffer.alloc(8192)
  control.writeUInt32LE(state, 16)
  writeFileSync(join(folder.cluster, 'global', 'pg_control'), control)
  writeFileSync(join(folder.cluster, 'pg_wal', SEGMENT), '')
  writeFileSync(join(folder.cluster, 'backup_label.old'), `START WAL LOCATION: 0/7000028 (file ${SEGMENT})\n`)
  markRestored(folder.cluster)
  return { folder, hasLabel: () => existsSync(join(folder.cluster, 'backup_label')) }
}

test('an interrupted recovery gets its label back, and a completed one does not', (t) => {
  for (const [state, isResumed] of [
    [1, false],
    [2, true],
    [3, false],
    [4, false],
    [5, true],
    [6, false],
  ] as const) {
    const { folder, hasLabel } = interruptedRestore(t, state)
    resumeRecovery(folder)
    assert.equal(hasLabel(), isResumed, `state ${state}`)
  }
})

test("leaves a cluster without a restore's mark alone", (t) => {
  const { folder, hasLabel } = interruptedRestore(t, 5)
  rmSync(join(folder.cluster, 'storefront-restored'))
  resumeRecovery(folder)
  assert.equal(hasLabel(), false)
})

test('an interrupted recovery without its WAL asks for another restore', (t) => {
  const { folder, hasLabel } = interruptedRestore(t, 5)
  rmSync(join(folder.cluster, 'pg_wal', SEGMENT))
  assert.throws(() => resumeRecovery(folder), /run storefront restore again/)
  assert.equal(hasLabel(), false)
})
