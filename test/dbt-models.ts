import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DuckDBConnection, DuckDBValue } from '@duckdb/node-api'
import { parse } from 'yaml'

interface Model {
  name: string
  folder: string
  sql: string
  /** Names of models that it reads. */
  refs: string[]
}

const REF = /\{\{ ref\('(\w+)'\) \}\}/g
const SOURCE = /\{\{ source\('(\w+)', '(\w+)'\) \}\}/g

/** The SQL models of a dbt project whose only Jinja is `ref` and `source`. */
export function readModels(project: string): Model[] {
  const files = readdirSync(join(project, 'models'), { recursive: true, withFileTypes: true })
  return files
    .filter((file) => file.name.endsWith('.sql'))
    .map(({ name, parentPath }) => {
      const text = readFileSync(join(parentPath, name), 'utf8')
      const sql = text.replaceAll(REF, 'models.$1').replaceAll(SOURCE, '$1.$2')
      if (/\{[{%]/.test(sql)) throw new Error(`${name} has Jinja besides ref and source`)
      return { name: name.slice(0, -4), folder: parentPath, sql, refs: [...text.matchAll(REF)].map(([, model = '']) => model) }
    })
}

/** Creates every model as a view in the schema `models`, after those that it reads. */
export async function createModels(connection: DuckDBConnection, models: readonly Model[]): Promise<void> {
  await connection.run('create schema models')
  const created = new Set<string>()
  for (let waiting = [...models]; waiting.length > 0; ) {
    const ready = waiting.filter(({ refs }) => refs.every((name) => created.has(name)))
    if (ready.length === 0) throw new Error(`models read each other, or one that is not there: ${waiting.map(({ name }) => name)}`)
    for (const { name, sql } of ready) {
      await connection.run(`create view models.${name} as ${sql}`)
      created.add(name)
    }
    waiting = waiting.filter(({ name }) => !created.has(name))
  }
}

type Check = string | Record<string, Record<string, unknown>>
interface Described {
  name: string
  columns?: { name: string; tests?: Check[] }[]
}

/** The generic tests of the project's YAML files, as `select` that finds the rows which break it. */
export function readChecks(project: string): { title: string; described: string; select: string }[] {
  const files = readdirSync(join(project, 'models'), { recursive: true, withFileTypes: true }).filter(({ name }) => name.endsWith('.yml'))
  return files.flatMap(({ name, parentPath }) => {
    const { models = [], sources = [] } = parse(readFileSync(join(parentPath, name), 'utf8')) as {
      models?: Described[]
      sources?: { schema: string; tables: Described[] }[]
    }
    const tables = sources.flatMap(({ schema, tables }) => tables.map((table) => ({ ...table, name: `${schema}.${table.name}` })))
    return [...models.map((model) => ({ ...model, name: `models.${model.name}` })), ...tables].flatMap(
      ({ name: described, columns = [] }) =>
        [{ name: '', tests: [] as Check[] }, ...columns].flatMap(({ name: column, tests = [] }) =>
          tests.map((check) => ({
            title: `${described}.${column} ${JSON.stringify(check)}`,
            described,
            select: toSelect(described, column, check),
          })),
        ),
    )
  })
}

function toSelect(table: string, column: string, check: Check): string {
  if (check === 'not_null') return `select ${column} from ${table} where ${column} is null`
  if (check === 'unique') return `select ${column} from ${table} group by ${column} having count(*) > 1`
  if (typeof check === 'object' && check.accepted_values !== undefined) {
    const values = (check.accepted_values.values as string[]).map((value) => `'${value}'`)
    return `select ${column} from ${table} where ${column} not in (${values})`
  }
  if (typeof check === 'object' && check.relationships !== undefined) {
    const { to, field } = check.relationships as { to: string; field: string }
    return `select ${table}.${column} from ${table} anti join ${to.replace(/^ref\('(\w+)'\)$/, 'models.$1')} as other on other.${field} = ${table}.${column}`
  }
  throw new Error(`${JSON.stringify(check)} is no test that is known here`)
}

/** Rows as JSON has them, for a comparison. */
export async function selectPlain(connection: DuckDBConnection, select: string): Promise<unknown[][]> {
  const rows = (await connection.runAndReadAll(select)).getRows()
  return rows.map((row) => row.map(toPlain))
}

function toPlain(value: DuckDBValue): unknown {
  if (value === null || typeof value === 'number' || typeof value === 'boolean' || typeof value === 'string') return value
  return typeof value === 'bigint' ? Number(value) : String(value)
}
