import { posix } from 'node:path'
import { type Node, parseSync } from 'oxc-parser'

/** Calls that take SQL, with the place of the statement among their arguments. */
const SINKS: Record<string, number> = {
  query: 0,
  executeSql: 0,
  prepare: 0,
  run: 0,
  runAndReadAll: 0,
  runAndReadUntil: 0,
  start: 0,
  stream: 0,
  streamAndReadAll: 0,
  streamAndReadUntil: 0,
  extractStatements: 0,
}
const FUNCTION_SINKS: Record<string, number> = { copyRows: 1, copyTexts: 1 }
const CLASS_SINKS: Record<string, number> = { Cursor: 0, Query: 0, QueryStream: 0 }
/**
 * Methods that may only be called: passed as a value they would receive SQL unseen. The names of the other sinks are
 * too common for this rule.
 */
const CALLED_ONLY = new Set(Object.keys(SINKS).filter((name) => !['prepare', 'run', 'start', 'stream'].includes(name)))

const SQL_FILE = 'src/db/sql.ts'
const DUCKDB_FILE = 'src/lake/lake-database.ts'
/** Functions that build a statement from statements, with the file that exports each. */
const BUILDERS: Record<string, string> = { prepared: SQL_FILE, toDuckDB: DUCKDB_FILE }

// biome-ignore lint/suspicious/noExplicitAny: a syntax tree is walked whatever its nodes are
type AnyNode = any

/**
 * The names of a source, by their possible meanings. Scopes are not distinguished: a name has the least safe meaning
 * that it has anywhere.
 */
interface Names {
  /** Values of each `const`. */
  constants: Map<string, AnyNode[]>
  /** Parameters, `let`, `var` and what is destructured: whether the name is annotated with `Sql` each time. */
  variables: Map<string, boolean>
  /** Functions that return `Sql`. */
  makers: Set<string>
  /** The file of each imported name, of a package its name. */
  imports: Map<string, string>
}

/**
 * Why a value may become SQL text in this source; none when it cannot. A statement is a literal without `${…}`, a
 * piece of `sql`, or what a builder makes of them, here or in a `const` of the same file. A text that looks like SQL
 * and has a `${…}` must be tagged with `sql`.
 */
export function findSqlFromValues(file: string, source: string, exceptions: Record<string, string> = {}): string[] {
  const { program } = parseSync(file, source)
  const names = findNames(file, program)
  const found: string[] = []
  const textOf = (node: Node) => source.slice(node.start, node.end)
  const report = (node: Node, reason = textOf(node)) => found.push(`${file}:${source.slice(0, node.start).split('\n').length} ${reason}`)

  walk(program, (node, parent) => {
    const statement = sqlArgument(node)
    if (statement !== undefined) {
      const callee = node.callee.property?.name ?? node.callee.name
      const name = `${file} ${callee}(${textOf(statement)})`
      if (mayBeSql(node, statement) && !isStatement(statement, names) && exceptions[name] === undefined) report(node, name)
    }
    if (isTextWithValues(node, parent, names)) report(node)
    if (isMethodAsValue(node, parent) && exceptions[`${file} ${textOf(parent)}`] === undefined)
      report(node, `${textOf(parent)}: such a method is called by its name, and nothing else`)
    if (file !== SQL_FILE) for (const reason of forgeries(node, parent)) report(node, reason)
  })
  return found
}

/** The argument of a call or a `new` that is SQL. */
function sqlArgument(node: AnyNode): AnyNode {
  if (node.type !== 'CallExpression' && node.type !== 'NewExpression') return undefined
  const name = nameOfProperty(node.callee)
  if (node.type === 'NewExpression') return node.arguments[CLASS_SINKS[name ?? node.callee.name] ?? -1]
  return node.arguments[(name === undefined ? FUNCTION_SINKS[node.callee.name] : SINKS[name]) ?? -1]
}

/** Objects other than databases have methods of these names; their arguments cannot be statements. */
function mayBeSql(call: AnyNode, statement: AnyNode): boolean {
  const isFunction = statement.type === 'ArrowFunctionExpression' || statement.type === 'FunctionExpression'
  const method = call.callee.property?.name
  const isLedger = method === 'run' && ['work', 'jobs'].includes(call.callee.object?.name)
  // A prepared answer to a request, and a statement that was extracted to a constant, where its text is checked.
  const isPrepared = method === 'prepare' && ['request.headers', 'index'].includes(dotted(statement))
  return !isFunction && !isLedger && !isPrepared
}

function isStatement(node: AnyNode, names: Names): boolean {
  const isOne = (part: AnyNode) => isStatement(part, names)
  switch (node?.type) {
    case 'Literal':
      return typeof node.value === 'string'
    case 'TemplateLiteral':
      return node.expressions.length === 0
    case 'TaggedTemplateExpression':
      return isFrom(node.tag.name, SQL_FILE, names) && node.tag.name === 'sql'
    case 'TSAsExpression':
    case 'TSNonNullExpression':
    case 'ParenthesizedExpression':
      return isOne(node.expression)
    case 'ConditionalExpression':
      return isOne(node.consequent) && isOne(node.alternate)
    case 'CallExpression': {
      const { name } = node.callee
      const home = Object.hasOwn(BUILDERS, name ?? '') ? BUILDERS[name] : undefined
      if (home !== undefined) return isFrom(name, home, names) && isOne(node.arguments[0])
      return names.makers.has(name) && !names.constants.has(name) && !names.variables.has(name)
    }
    case 'MemberExpression':
      return nameOfProperty(node) === 'text' && isOne(node.object)
    case 'ObjectExpression': {
      const text = node.properties.find((property: AnyNode) => property.key?.name === 'text')
      const isPlain = node.properties.every((property: AnyNode) => property.type === 'Property' && !property.computed)
      return isPlain && text !== undefined && isOne(text.value)
    }
    case 'Identifier': {
      if (names.variables.get(node.name) === false) return false
      const values = names.constants.get(node.name)
      if (values !== undefined) return values.every(isOne)
      // A constant of another file is checked there, as a text that looks like SQL.
      const isImported = names.imports.get(node.name)?.startsWith('src/') === true
      return names.variables.has(node.name) || (isImported && /^[A-Z][A-Z_]+$/.test(node.name))
    }
    default:
      return false
  }
}

function findNames(file: string, program: AnyNode): Names {
  const names: Names = { constants: new Map(), variables: new Map(), makers: new Set(), imports: new Map() }
  const { constants, variables, makers, imports } = names
  walk(program, (node) => {
    if (node.type !== 'ImportDeclaration') return
    const from: string = node.source.value
    const home = from.startsWith('.') ? posix.join(posix.dirname(file), from) : from
    for (const { local, imported } of node.specifiers) {
      // Under another name the check would not recognize it.
      const isRenamed = imported !== undefined && imported.name !== local.name
      imports.set(local.name, isRenamed || imported === undefined ? `${home} ${imported?.name ?? '*'}` : home)
    }
  })
  const isSql = (annotation: AnyNode) =>
    annotation?.typeAnnotation.typeName?.name === 'Sql' && (file === SQL_FILE || imports.get('Sql') === SQL_FILE)
  const addVariables = (pattern: AnyNode) => {
    for (const id of identifiersOf(pattern)) variables.set(id.name, variables.get(id.name) !== false && isSql(id.typeAnnotation))
  }
  walk(program, (node) => {
    if (node.type === 'VariableDeclaration')
      for (const { id, init } of node.declarations)
        if (node.kind !== 'const' || id.type !== 'Identifier') addVariables(id)
        else if (init !== null) constants.set(id.name, [...(constants.get(id.name) ?? []), init])
    if (Array.isArray(node.params)) for (const param of node.params) addVariables(param.parameter ?? param)
    if (node.type === 'CatchClause') addVariables(node.param)
    if (node.type === 'FunctionDeclaration') {
      if (isSql(node.returnType)) makers.add(node.id.name)
      else addVariables(node.id)
    }
    // for (const statement of STATEMENTS): each element of the list.
    if (node.type === 'ForOfStatement' && node.left.type === 'VariableDeclaration') {
      const list = constants.get(node.right.name)?.[0]
      const elements = list?.type === 'TSAsExpression' ? list.expression.elements : list?.elements
      const { id } = node.left.declarations[0]
      if (id.type === 'Identifier') constants.set(id.name, [...(constants.get(id.name) ?? []), ...(elements ?? [null])])
    }
  })
  return names
}

/** The names that a parameter or a declaration binds. */
function identifiersOf(pattern: AnyNode): AnyNode[] {
  switch (pattern?.type) {
    case 'Identifier':
      return [pattern]
    case 'AssignmentPattern':
      return identifiersOf(pattern.left)
    case 'RestElement':
      return identifiersOf(pattern.argument)
    case 'ArrayPattern':
      return pattern.elements.flatMap(identifiersOf)
    case 'ObjectPattern':
      return pattern.properties.flatMap((property: AnyNode) => identifiersOf(property.value ?? property))
    default:
      return []
  }
}

/**
 * Whether a name means only the known function: declared in this file, its home, or imported from there, and bound
 * nowhere else in the file.
 */
function isFrom(name: string, home: string, { imports, constants, variables }: Names): boolean {
  return imports.get(name) === home && !constants.has(name) && !variables.has(name)
}

function isTextWithValues(node: AnyNode, parent: AnyNode, names: Names): boolean {
  if (node.type === 'TemplateLiteral' && node.expressions.length > 0) {
    const isSql = parent.type === 'TaggedTemplateExpression' && isStatement(parent, names)
    return !isSql && LOOKS_LIKE_SQL.test(node.quasis.map((quasi: AnyNode) => quasi.value.cooked).join('…'))
  }
  const sides = node.type === 'BinaryExpression' && node.operator === '+' ? [node.left, node.right] : []
  return sides.some((side) => side.type === 'Literal' && LOOKS_LIKE_SQL.test(`${side.value} …`))
}

/** `db['query']`, `db.query.call`, `const { query } = db`: the call that follows would not be recognized. */
function isMethodAsValue(node: AnyNode, parent: AnyNode): boolean {
  if (node.type === 'Property' && parent.type === 'ObjectPattern') return CALLED_ONLY.has(node.key.name ?? node.key.value)
  if (node.type !== 'MemberExpression') return false
  const name = nameOfProperty(node)
  if (node.computed) return name !== undefined && Object.hasOwn(SINKS, name)
  if (!CALLED_ONLY.has(name ?? '') || dotted(node) === 'request.query') return false
  return !(parent.type === 'CallExpression' && parent.callee === node)
}

/** Ways around the tag: the library's own functions, and objects with the shape of a statement. */
function* forgeries(node: AnyNode, parent: AnyNode): Generator<string> {
  if (node.source?.value === 'sql-template-tag') yield `sql-template-tag is used by ${SQL_FILE} only: its raw() and join() take any text`
  if (node.type === 'TSAsExpression' && node.typeAnnotation.typeName?.name === 'Sql') yield 'a cast to Sql hides what the text is made of'
  if (node.type === 'NewExpression' && node.callee.name === 'Sql') yield 'new Sql takes any text'
  if (node.type === 'ObjectExpression') {
    const keys = node.properties.map((property: AnyNode) => property.key?.name)
    if (keys.includes('strings') && keys.includes('values')) yield 'an object with strings and values passes for Sql, with any text'
  }
  const isKey = parent?.type === 'Property' && parent.key === node && !parent.shorthand
  const isName = isKey || /^(ImportSpecifier|ImportDefaultSpecifier|TaggedTemplateExpression)$/.test(parent?.type)
  if (node.type === 'Identifier' && node.name === 'sql' && !isName)
    yield 'sql is a tag and nothing else: called as a function it takes any text'
}

/** The name of the property, also in brackets; undefined when it is no constant. */
function nameOfProperty(node: AnyNode): string | undefined {
  if (node.type !== 'MemberExpression') return undefined
  if (!node.computed) return node.property.name
  return node.property.type === 'TemplateLiteral' ? node.property.quasis[0].value.cooked : node.property.value
}

function dotted(node: AnyNode): string {
  return node.type === 'MemberExpression' ? `${dotted(node.object)}.${nameOfProperty(node)}` : node.name
}

const LOOKS_LIKE_SQL =
  /^\s*(select|insert into|update \S+ set|delete from|with \w+ as|copy|create (table|view|database|role|index)|alter|drop|truncate|listen|notify|fetch \S+ from|declare|set (local )?\w+ =|lock table|explain|grant|revoke|begin)\b|\b(select .* from|insert into|delete from|order by|group by|limit …|offset …|where \S+ (=|<|>|in|is|like)|returning)\s|(=|<|>|<=|>=|<>) …$|::(uuid|text|bigint|integer|timestamptz|jsonb?)\b/s

function walk(node: AnyNode, visit: (node: AnyNode, parent: AnyNode) => void, parent: AnyNode = null): void {
  if (Array.isArray(node)) {
    for (const child of node) walk(child, visit, parent)
  } else if (typeof node === 'object' && node !== null && typeof node.type === 'string') {
    visit(node, parent)
    for (const [key, child] of Object.entries(node)) if (key !== 'parent') walk(child, visit, node)
  }
}
