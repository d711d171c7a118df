import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { debianPostgresMissing } from './debian-postgres.ts'
import { BIN } from './store-process.ts'

const ROOT = join(import.meta.dirname, '..')
// The last commit of 0.1.0. An earlier one cannot run with the packages that are installed now. It imports node-pg-migrate.
const EARLIER = '2f1ff1e'

/** An expanding migration: the earlier version knows neither the column nor the table. */
const EXPANSION = `
alter table orders add column next_release text not null default 'new';
create table next_things (next_thing_id bigint primary key);
`

function makeFolder(t: Cleanup): string {
  const folder = mkdtempSync(join(tmpdir(), 'storefront-version-'))
  onCleanup(t, () => rmSync(folder, { recursive: true, force: true }))
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  return folder
}

/** This version with one more migration and a right on its table, as the next release would have them. */
export function makeNextVersion(t: Cleanup): string {
  const folder = makeFolder(t)
  for (const name of ['bin', 'src', 'migrations', 'docs', 'package.json', 'openapi.json'])
    cpSync(join(ROOT, name), join(folder, name), { recursive: true })
  writeFileSync(join(folder, 'migrations/9000_next_release.sql'), EXPANSION)
  const rights = join(folder, 'src/db/rights.ts')
  const changed = readFileSync(rights, 'utf8').replace("  migrations: ['select'],", "$&\n  next_things: ['select', 'insert'],")
  assert.match(changed, /next_things/)
  writeFileSync(rights, changed)
  return join(folder, 'bin/storefront.mjs')
}

function hasCommit(name: string): boolean {
  return spawnSync('git', ['-C', ROOT, 'cat-file', '-e', `${name}^{commit}`], { stdio: 'ignore' }).status === 0
}

function checkOut(t: Cleanup, commit: string): string {
  const folder = makeFolder(t)
  const archive = execFileSync('git', ['-C', ROOT, 'archive', commit, 'bin', 'src', 'migrations', 'docs', 'package.json', 'openapi.json'], {
    maxBuffer: 1_000_000_000,
  })
  execFileSync('tar', ['-x', '-C', folder], { input: archive })
  return join(folder, 'bin/storefront.mjs')
}

/** Pairs of a version and a later one: `earlier` is the program of the first, `makeNextVersion` that of the second. */
export const versions = [
  { name: 'this version and the next', skip: debianPostgresMissing, earlier: () => BIN },
  {
    name: 'the release 0.1.0 and the next version',
    skip: debianPostgresMissing || (!hasCommit(EARLIER) && `this clone has no commit ${EARLIER}`),
    earlier: (t: Cleanup) => checkOut(t, EARLIER),
  },
] as const
