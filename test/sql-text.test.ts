import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { findSqlFromValues } from './sql-from-values.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** Statements whose text comes from elsewhere, with the reason. */
const EXCEPTIONS: Record<string, string> = {
  'src/db/copy-rows.ts query(new Copy(statement, chunks, (error) => (error ? reject(error) : resolve())))':
    'its callers are checked: FUNCTION_SINKS',
  'src/db/migrate.ts query(text)': 'a file of migrations/',
  'src/db/migrate.ts query(statement)': 'a file of migrations/',
  'src/db/sql-functions.ts query(statements)': 'files of src/<room>/sql/',
  'src/db/sql-functions.ts query(revokes)': 'PostgreSQL makes it, with format(), of names',
  'src/http/define-route.ts { operationId, summary, description, params, query, headers, body, consumes, produces, answers, ...rest }':
    'the schemas of a route, no statement',
  "src/http/define-route.ts { access = '', stepUp, params, query, headers, consumes, cost, refuses = [] }":
    'the schemas of a route, no statement',
  'src/db/rights.ts query(statements)': 'PostgreSQL makes it, with format(), of names and constants',
  'src/db/copy-rows.ts query(this.#statement)': 'its callers are checked: FUNCTION_SINKS',
  'src/app/move-source.ts query(wayBack)': 'PostgreSQL makes it, with format()',
  'src/db/copy-database.ts query(foreignKeys.drop)': 'PostgreSQL makes it, with format(), of names and its own definitions',
  'src/db/copy-database.ts query(foreignKeys.add)': 'PostgreSQL makes it, with format(), of names and its own definitions',
  'src/cli/run-command.ts run(context)': 'runs a command of the command line, no statement',
  'src/lake/bounded-query.ts prepare(0)': 'the first statement of a text that was checked',
  'src/db/embedded/server-supervisor.ts run(well)': 'runs the server, no statement',
  'src/db/fresh-copies.ts query(query)': 'made by the tag, with a name under which it is prepared',
  'src/audit/routes.ts run(request.body.kind)': 'starts verify or replay, no statement',
  'src/lake/routes.ts run(query)': 'the SQL of an operator, which the process of the query checks and confines',
  'src/lake/lake-query.ts extractStatements(text)': 'the SQL that an operator typed at `storefront lake query`',
}

// The console's page runs in a browser, without a database.
const SOURCES = globSync('src/**/*.ts', { cwd: ROOT }).filter((file) => !/(\.test|-conformance)\.ts$|^src\/console\/page\//.test(file))

test('no value becomes SQL text: statements are constants or made by the tag sql', () => {
  assert.ok(SOURCES.length > 100)
  const found = SOURCES.flatMap((file) => findSqlFromValues(file, readFileSync(`${ROOT}/${file}`, 'utf8'), EXCEPTIONS))
  assert.deepEqual(
    found,
    [],
    'a value in SQL text is how a query parameter once read the whole database: see docs/decisions/db-statements.md',
  )
})

test('each exception is still there', () => {
  const sources = SOURCES.map((file) => [file, readFileSync(`${ROOT}/${file}`, 'utf8')] as const)
  for (const exception of Object.keys(EXCEPTIONS)) {
    const [file = '', ...call] = exception.split(' ')
    assert.ok(
      sources.some(([name, source]) => name === file && source.includes(call.join(' ').replace(/\)$/, ''))),
      exception,
    )
  }
})

test('the check sees each way in which a value could become SQL text', () => {
  // § for the sign that the linter takes for a forgotten template.
  const imports = `
    import { prepared, type Sql, sql } from './db/sql.ts'
    import { toDuckDB } from './lake/lake-database.ts'
    import { COLUMNS } from './columns.ts'
  `
  const checkWhole = (source: string) => findSqlFromValues('src/example.ts', source.replaceAll('§', '$'))
  const check = (source: string) => checkWhole(`${imports};${source}`)
  const bad = [
    'db.query(`select 1 limit §{count}`)',
    'db.query({ name: "a", text: `select §{column} from products` })',
    'const text = `select * from products where id = §{id}`; db.query(text)',
    'const text = "select 1 where id = " + id; db.query(text)',
    'let text = "select 1"; db.query(text)',
    'function f(text) { return db.query(text) }',
    'db.query(["select", id].join(" "))',
    'db.query("select 1 limit ".concat(count))',
    'db.query({ ...statement, text })',
    'db.query({ ...statement })',
    'db.query(flag ? "select 1" : text)',
    'db.query(statement.text)',
    'conditions.push(`status = §{status}`)',
    'conditions.push(`id = any(§{ids}::uuid[])`)',
    'const order = `order by §{column} desc`',
    'copyRows(tx, `copy §{table} from stdin`, rows)',
    'for (const text of texts) await db.query(text)',
    'connection.run(`copy t to §{path}`)',
    'connection.runAndReadAll(`from read_parquet(§{path})`)',
    'import { raw } from "sql-template-tag"',
    'function begin(): string { return text } db.query(begin())',
    // Text by the library's own ways.
    'import { join } from "sql-template-tag"; db.query(sql`select 1 where §{join(conditions, filters.mode)}`)',
    'export { raw } from "sql-template-tag"',
    'const { raw } = await import("sql-template-tag")',
    'import { type Sql as Statement, sql as tag } from "./db/sql.ts"; db.query(tag`select §{id}`)',
    'const where = sql([column])',
    'const where = sql.call(null, [column])',
    'const where = new Sql([column], [])',
    'const where = { text } as unknown as Sql',
    'const where: Sql = { strings: [column], values: [] }',
    'conditions.push(String.raw`status = §{status}`)',
    // Names that mean something else where they are used.
    'const text = "select 1"; function f(text: string) { return db.query(text) }',
    'const text = "select 1"; { let text = column; db.query(text) }',
    'const text = "select 1"; const f = ({ text }) => db.query(text)',
    'const text = "select 1"; { const { text } = request.body; db.query(text) }',
    'const text = "select 1"; { const [text] = list; db.query(text) }',
    'const text = "select 1"; try {} catch (text) { db.query(text) }',
    'const text = "select 1"; for (let text of list) db.query(text)',
    'const text = "select 1"; function f(text = column) { return db.query(text) }',
    'const text = "select 1"; function f(...text) { return db.query(text) }',
    'function begin(): Sql { return sql`begin` } function f(begin) { return db.query(begin()) }',
    'function f(sql) { return db.query(sql`select §{id}`) }',
    'function f(toDuckDB) { return db.query(toDuckDB(sql`select 1`)) }',
    'const prepared = (text) => text; db.query(prepared(sql`select 1`))',
    // Builders of statements.
    'db.query(prepared({ text, values: [] }, "name"))',
    'db.query(prepared(text, "name"))',
    'connection.run(toDuckDB({ strings: [column], values: [] }))',
    'function f(statement: Statement) { return db.query(prepared(statement, "name")) }',
    // The same methods by other ways.
    'db["query"]("select " + column)',
    'db["query"](text)',
    'db[`query`](text)',
    'const { query } = db; query(text)',
    'const { query: ask } = db; ask(text)',
    'db.query.call(db, text)',
    'db.query.apply(db, [text])',
    'db.query.bind(db)(text)',
    'const ask = db.query',
    '(db.query)(text)',
    'db.query!(text)',
    'connection["run"](text)',
    'const { runAndReadAll } = connection',
    'db.query(...list)',
    // Constants that are none.
    'db.query(UNKNOWN_COLUMNS)',
    'function f(SQL) { return db.query(SQL) }',
    'function f(COLUMNS) { return db.query(COLUMNS) }',
    'let COLUMNS_OF = column; db.query(COLUMNS_OF)',
    'import { TEXT } from "elsewhere"; db.query(TEXT)',
    // Other methods that take SQL.
    'connection.start(text)',
    'connection.prepare(text)',
    'connection.runAndReadUntil(text, 1)',
    'connection.streamAndReadUntil(text, 1)',
    'boss.executeSql(text)',
    'new Cursor(text)',
    'new pg.Query(text)',
  ]
  for (const source of bad) assert.notDeepEqual(check(source), [], source)
  const unimported = [
    'db.query(sql`select §{id}`)',
    'import { sql } from "./sql.ts"; db.query(sql`select §{id}`)',
    'import sql from "sql-template-tag"; db.query(sql`select §{id}`)',
    'import type { Sql } from "./other.ts"; function begin(): Sql { return text } db.query(begin())',
    'function f(statement: Sql) { return db.query(statement) }',
    'db.query(prepared(sql`select 1`, "name"))',
    'const sql = (strings, ...values) => strings.join(values); db.query(sql`select §{id}`)',
  ]
  for (const source of unimported) assert.notDeepEqual(checkWhole(source), [], source)
  const good = [
    'db.query("select 1 limit $1", [count])',
    'db.query(sql`select 1 limit §{count}`)',
    'db.query(prepared(sql`select 1 limit §{count}`, "name"))',
    'db.query({ name: "a", text: "select $1", values: [id] })',
    'const statement = sql`select §{id}`; db.query(statement); db.query(statement.text)',
    'const ALL = [sql`select 1`, sql`select 2`] as const; for (const one of ALL) db.query(one)',
    'connection.run(toDuckDB(sql`copy t to §{path}`))',
    'function begin(): Sql { return sql`begin` } db.query(begin())',
    'function f(statement: Sql) { return db.query(prepared(statement, "name")) }',
    'function f(text: string) { return log(text) } const statement = "select 1"; db.query(statement)',
    'db.query(COLUMNS)',
    'listOrders(pool, request.query)',
    'db?.query("select 1")',
    'boss.start()',
    'log(`the order §{id} is gone; see §{file}`)',
  ]
  for (const source of good) assert.deepEqual(check(source), [], source)
})
