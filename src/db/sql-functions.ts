import { createHash } from 'node:crypto'
import { glob, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Queryable } from './pool.ts'
import { sql } from './sql.ts'

const ROOMS = fileURLToPath(new URL('..', import.meta.url))
const BEGINNING = /^(?=create or replace function )/m
const NAME = /^create or replace function (\w+)/

export async function readFunctions(): Promise<{ name: string; text: string }[]> {
  const files = await Array.fromAsync(glob('*/sql/*.sql', { cwd: ROOMS }))
  const texts = await Promise.all(files.toSorted().map((file) => readFile(join(ROOMS, file), 'utf8')))
  return texts
    .flatMap((text) => text.split(BEGINNING))
    .flatMap((text) => {
      const [, name] = NAME.exec(text) ?? []
      return name === undefined ? [] : [{ name, text }]
    })
}

export async function hashFunctions(): Promise<string> {
  const texts = (await readFunctions()).map(({ text }) => text)
  return createHash('sha256').update(texts.join('')).digest('hex').slice(0, 16)
}

export async function listFunctions(db: Queryable): Promise<ReadonlySet<string>> {
  const { rows } = await db.query<{ name: string }>(
    sql`select proname::text as name from pg_proc where pronamespace = current_schema()::regnamespace`,
  )
  return new Set(rows.map(({ name }) => name))
}

/** Call it in a transaction. `grantRights` decides who may call functions with the owner's rights. */
export async function createFunctions(db: Queryable, isWanted: (name: string) => boolean): Promise<void> {
  // Function bodies may use tables of later migrations. `pg_temp` is last: otherwise a temporary table of the caller
  // would hide one of the store in a function with the owner's rights.
  await db.query(
    sql`select set_config('check_function_bodies', 'off', true), set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true)`,
  )
  const statements = (await readFunctions()).flatMap(({ name, text }) => (isWanted(name) ? [text] : [])).join('')
  if (statements !== '') await db.query(statements)
  const revokes = await readRevokes(db)
  if (revokes !== null) await db.query(revokes)
}

/**
 * The statements that revoke everybody's right to execute functions with the owner's rights, which PostgreSQL grants by
 * default. Null if there are none.
 */
export async function readRevokes(db: Queryable): Promise<string | null> {
  const { rows } = await db.query<{ revokes: string | null }>(
    sql`select string_agg(format('revoke execute on function %s from public', oid::regprocedure), '; ') as revokes
    from pg_proc
    where prosecdef and pronamespace = current_schema()::regnamespace
      and exists (select from aclexplode(coalesce(proacl, acldefault('f', proowner))) where grantee = 0)`,
  )
  return rows[0]?.revokes ?? null
}
