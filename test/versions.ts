import assert from 'node:assert/strict'
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Cleanup } from './cleanup.ts'
import { makeTestFolder } from './test-folder.ts'

const ROOT = join(import.meta.dirname, '..')
/**
 * An expanding migration: the earlier version knows neither the column nor the table, nor the function that its
 * trigger calls.
 */
const EXPANSION = `
alter table orders add column next_release text not null default 'new';
create table next_things (next_thing_id bigint primary key);
create trigger next_things_next before insert on next_things for each row execute function next_things_next();
`

const NEXT_FUNCTION = `
create or replace function next_things_next() returns trigger language plpgsql as $$ begin return new; end $$;
`

/** This version with one more migration and a right on its table, as the next release would have them. */
export function makeNextVersion(t: Cleanup): string {
  const folder = makeTestFolder(t, 'storefront-version-')
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  for (const name of ['bin', 'src', 'migrations', 'docs', 'package.json', 'openapi.json'])
    cpSync(join(ROOT, name), join(folder, name), { recursive: true })
  writeFileSync(join(folder, 'migrations/9000_next_release.sql'), EXPANSION)
  const functions = join(folder, 'src/orders/sql/place-orders.sql')
  const place = readFileSync(functions, 'utf8').replace('#variable_conflict use_column', '$&\n-- of the next release')
  assert.match(place, /next release/)
  writeFileSync(functions, place + NEXT_FUNCTION)
  const rights = join(folder, 'src/db/rights.ts')
  const changed = readFileSync(rights, 'utf8').replace("  migrations: ['select'],", "$&\n  next_things: ['select', 'insert'],")
  assert.match(changed, /next_things/)
  writeFileSync(rights, changed)
  return join(folder, 'bin/storefront.mjs')
}
