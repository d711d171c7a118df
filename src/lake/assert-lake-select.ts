import type { DuckDBConnection } from '@duckdb/node-api'
import { LAKE_TABLES } from './lake-tables.ts'

/** Functions that return rows and read only their arguments. All others are refused, so new ones are, too. */
const TABLE_FUNCTIONS: ReadonlySet<string> = new Set(['unnest', 'range', 'generate_series', 'json_each', 'json_tree'])

/** Functions that show settings, change DuckDB, run SQL text, or expect internal arguments. */
const REFUSED_FUNCTION =
  /^(?:__.*|current_setting|getvariable|getenv|write_log|json_(?:serialize_plan|execute_serialized_sql)|query|query_table|pg_sleep|sleep_ms|combine|finalize)$/
/**
 * These macros read DuckDB's catalogue, which contains local paths. They must be refused by name, because DuckDB
 * expands macros after this check.
 */
const CATALOGUE_MACROS: ReadonlySet<string> = new Set(['pg_get_viewdef', 'pg_get_constraintdef', 'format_type', 'get_block_size'])
/** The parser itself adds the schema main to lists and structs. */
const FUNCTION_SCHEMAS: ReadonlySet<unknown> = new Set([undefined, '', 'main'])

const VIEWS: ReadonlySet<string> = new Set(LAKE_TABLES.map(({ name }) => name))
/** A table name that can be neither a file nor one of DuckDB's own views. */
const SAFE_NAME = /^(?!(?:duckdb|pragma|sqlite|pg)_)[\p{L}_][\p{L}\p{N}_ -]*$/iu

export const NO_SELECT = "Only one SELECT is answered, and in it a PIVOT that names its values, such as on status in ('pending', 'shipped')"

interface Node {
  readonly [name: string]: unknown
}

/** Checks the tree of DuckDB's parser, so no spelling of a name can hide it. Throws with the reason. */
export async function assertLakeSelect(connection: DuckDBConnection, text: string): Promise<void> {
  const [[json] = []] = (await connection.runAndReadAll('select json_serialize_sql($1::varchar)', [text])).getRows()
  const parsed = JSON.parse(String(json)) as { error_type?: string; error_message?: string; statements?: unknown[] }
  if (parsed.error_type === 'parser') throw new Error(`Parser Error: ${parsed.error_message}`)
  const { statements } = parsed
  if (statements?.length !== 1) throw new Error(NO_SELECT)
  const nodes = [...walk(statements)]
  const names = new Set(VIEWS)
  for (const { cte_map } of nodes) {
    for (const { key } of (cte_map as { map: { key: string }[] } | undefined)?.map ?? []) {
      if (!SAFE_NAME.test(key)) throw new Error(`The name ${key} is refused`)
      names.add(key.toLowerCase())
    }
  }
  for (const node of nodes) assertAllowed(node, names)
}

function assertAllowed(node: Node, names: ReadonlySet<string>): void {
  switch (node.type) {
    case 'BASE_TABLE': {
      const path = [node.catalog_name, node.schema_name, node.table_name].filter((part) => part !== '').map(String)
      if (path.length === 1 && names.has(String(path[0]).toLowerCase())) return
      throw new Error(`${path.join('.')} is refused: a query reads ${[...VIEWS].join(', ')}`)
    }
    case 'TABLE_FUNCTION': {
      const name = String((node.function as Node).function_name).toLowerCase()
      if (!TABLE_FUNCTIONS.has(name)) throw new Error(`${name} is refused`)
      return
    }
    case 'SHOW_REF':
      if (Reflect.get(node, 'query') === null) throw new Error('SHOW is refused')
      return
    default: {
      const name = String(node.function_name ?? '').toLowerCase()
      if (REFUSED_FUNCTION.test(name) || CATALOGUE_MACROS.has(name)) throw new Error(`${name} is refused`)
      if (name !== '' && (node.catalog || !FUNCTION_SCHEMAS.has(node.schema))) throw new Error(`${name} is refused with a schema before it`)
    }
  }
}

/** A loop instead of recursion, because the SQL decides the depth. */
function* walk(root: unknown): Generator<Node> {
  const waiting = [root]
  while (waiting.length > 0) {
    const value = waiting.pop()
    if (typeof value !== 'object' || value === null) continue
    if (!Array.isArray(value)) yield value as Node
    waiting.push(...Object.values(value))
  }
}
