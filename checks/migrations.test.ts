import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { hashFunctions } from '../src/db/sql-functions.ts'
import { contractionsOf, findContractions, findMisplacedFunctions } from './migrations.ts'

const ROOT = join(import.meta.dirname, '..')

test('the previous release runs on the schema of every new migration', () => {
  assert.deepEqual(findContractions(ROOT), [])
})

test('functions are in src/<room>/sql, and the newest migration has their present form', async () => {
  assert.deepEqual(findMisplacedFunctions(ROOT, await hashFunctions()), [])
  const [changed] = findMisplacedFunctions(ROOT, '0123456789abcdef')
  assert.match(changed ?? '', /needs the line "-- functions: 0123456789abcdef"$/)
})

test('finds each statement that removes what the previous release uses', () => {
  const bad = [
    'drop table carts;',
    'alter table orders drop column note;',
    'alter table orders drop note;',
    'alter table orders rename column note to remark;',
    'alter table carts rename to baskets;',
    'alter table orders alter column number type text;',
    'alter table orders alter note set data type jsonb;',
    'alter table orders\n  alter column note\n  set not null;',
    'alter table orders add column note text not null;',
    'alter table orders add column a text, add column b text not null check (b <> $$$$), add c text;',
    'alter table orders add note text not null',
    'DROP FUNCTION place_orders(jsonb);',
    'revoke insert on orders from public;',
    "-- The store's own table.\nalter table orders drop column note;\n-- It isn't used.",
    'alter table orders drop column "note"',
    'alter table orders rename "a" to b',
    'alter table orders alter "a" set not null',
    'alter table orders drop/**/column note',
    'alter table only orders drop if exists note',
    'alter table orders add column total numeric(10,2) not null',
    'alter table orders add column total int check (total > 0) not null',
    'alter table orders set schema old',
    'alter table users alter column language drop default',
    'truncate carts',
    "do $$ begin execute 'drop table orders'; end $$",
  ]
  for (const statement of bad) assert.equal(contractionsOf(statement).length, 1, `${statement} ${contractionsOf(statement).join('; ')}`)
})

test('accepts statements that only add, and a contraction with its reason', () => {
  const good = [
    "alter table orders add column note text, add column kind text not null default 'a';",
    "alter table orders add column kind text default 'a' not null;",
    'alter table orders add column double bigint not null generated always as (number * 2) stored;',
    'create table parts (id bigint primary key, note text not null);',
    'alter table orders alter column note drop not null;',
    'alter table orders drop constraint orders_note_short;',
    'alter table orders add constraint orders_note_known check (note is not null) not valid;',
    'drop index orders_note_idx; drop trigger orders_notify on orders;',
    'create or replace function f() returns void language sql as $$ drop table carts $$;',
    "-- drop table carts;\nselect 'drop table carts';",
    "select '-- it isn''t'; -- don't\nselect 'drop table carts';",
    'drop index if exists orders_note_idx; alter table orders drop constraint if exists orders_note_short;',
    '-- contract: release 0.3.0 writes no carts any more\ndrop table carts;',
  ]
  for (const text of good) assert.deepEqual(contractionsOf(text), [], text)
})
