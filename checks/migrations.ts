import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The newest migration of the first schema. Later ones are for databases in use. */
const FIRST_SCHEMA = '0013'

const FUNCTIONS = /^-- functions: ([0-9a-f]{16})$/m

/** Statements after which the previous release cannot continue, with the alternative. */
const CONTRACTIONS: readonly { pattern: RegExp; instead: string }[] = [
  {
    pattern: /\bdrop (?:table|view|materialized view|sequence|type|function|schema|extension)\b/,
    instead: 'drop it in the release after the one that no longer uses it',
  },
  {
    pattern:
      /\bdrop (?:column )?(?!not null|default|constraint|index|trigger|identity|expression|table|view|materialized|sequence|type|function|schema|extension|policy|owned|if\b)\w+|\bdrop (?:column )?if exists \w+/,
    instead: 'drop the column in the release after the one that no longer uses it',
  },
  {
    pattern: /\brename (?:to|column|constraint|value|\w+ to)\b/,
    instead: 'add the new name, write both, and drop the old one a release later',
  },
  {
    pattern: /\balter (?:column )?\w+ (?:set data )?type\b/,
    instead: 'add a column of the new type, write both, and drop the old one a release later',
  },
  { pattern: /\balter (?:column )?\w+ set not null\b/, instead: 'set it in the release after the one that always writes the column' },
  {
    pattern:
      /\badd (?:column )?(?!constraint|primary|foreign|unique|check|exclude|value)(?:if not exists )?\w+ (?:(?!\bdefault\b|\bgenerated\b)[^,;])*\bnot null\b(?:(?!\bdefault\b|\bgenerated\b)[^,;])*(?=[,;]|$)/,
    instead: 'give the column a default, which the previous release needs for its rows',
  },
  { pattern: /\bdrop default\b/, instead: 'the previous release may leave the column out: drop the default a release later' },
  { pattern: /\btruncate\b|\bset schema\b|\bdrop owned\b/, instead: 'the previous release still reads these rows here' },
  { pattern: /\brevoke\b/, instead: 'rights are in src/db/rights.ts, and stay for one more release' },
]

const REASON = /^-- contract: \S.*$/m

/** The files in `migrations/` in order, with their texts. */
export function readMigrations(root: string): { name: string; text: string; isLater: boolean }[] {
  const names = readdirSync(join(root, 'migrations')).filter((name) => name.endsWith('.sql'))
  return names.toSorted().map((name) => ({
    name,
    text: readFileSync(join(root, 'migrations', name), 'utf8'),
    isLater: name.slice(0, 4) > FIRST_SCHEMA,
  }))
}

/**
 * Statements of later migrations that the previous release does not survive, as `file: statement: what to do instead`.
 */
export function findContractions(root: string): string[] {
  const later = readMigrations(root).filter(({ isLater }) => isLater)
  return later.flatMap(({ name, text }) => contractionsOf(text).map((line) => `${name}: ${line}`))
}

/**
 * The faults of functions' places: a migration creates one, or the newest migration lacks their present form (`hash`).
 */
export function findMisplacedFunctions(root: string, hash: string): string[] {
  const migrations = readMigrations(root)
  const newest = migrations.at(-1)
  const [, applied] = FUNCTIONS.exec(newest?.text ?? '') ?? []
  return [
    ...migrations.flatMap(({ name, text }) =>
      /\bcreate (or replace )?function\b/i.test(text) ? [`${name} creates a function: put it into src/<room>/sql/`] : [],
    ),
    ...(applied === hash
      ? []
      : [`${newest?.name}: the functions have changed: a migration that is not released yet needs the line "-- functions: ${hash}"`]),
  ]
}

/**
 * The contractions in a text. A file with the line `-- contract: REASON` may contain them, because the previous release
 * no longer uses what it removes.
 */
export function contractionsOf(text: string): string[] {
  if (REASON.test(text)) return []
  const statements = withoutParentheses(readableSql(text).toLowerCase())
    .split(';')
    .map((statement) => statement.replaceAll(/\s+/g, ' ').trim())
  return statements.flatMap((statement) =>
    CONTRACTIONS.flatMap(({ pattern, instead }) => {
      const found = pattern.exec(statement)?.[0]
      return found === undefined ? [] : [`"${found.trim()}": ${instead}`]
    }),
  )
}

/**
 * Removes comments, texts and function bodies. A quote inside another kind of quote is text. The body of a `do` stays,
 * because it runs at once.
 */
function readableSql(text: string): string {
  return text.replaceAll(
    /--.*$|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|"((?:[^"]|"")*)"|(\bdo\s+)?\$(\w*)\$([\s\S]*?)\$\3\$/gim,
    (found, name?: string, isRun?: string, _tag?: string, body = '') => {
      if (name !== undefined) return name.replaceAll(/\W/g, '_')
      if (isRun !== undefined) return `;${body.replaceAll("'", ' ')};`
      return found.startsWith("'") ? "''" : ' '
    },
  )
}

/** Removes parentheses. A comma or word in them belongs to a type, a condition or a list, and not to the statement. */
function withoutParentheses(text: string): string {
  const inner = text.replaceAll(/\([^()]*\)/g, ' ')
  return inner === text ? text : withoutParentheses(inner)
}
