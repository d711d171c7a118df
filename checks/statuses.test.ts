import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { ORDER_STATUSES, ruleOf, type StatusRule } from '../src/orders/order-status.ts'

type Rules = Readonly<Record<string, StatusRule>>
type Files = ReadonlyMap<string, string>

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const RULES: Rules = Object.fromEntries(ORDER_STATUSES.map((status) => [status, ruleOf(status)]))
const FILES = [
  'src/**/*.{ts,sql,html}',
  'console/**/*.{ts,html}',
  'docs/{,data/,inside/,operate/,shop/}*.{md,sql}',
  '{examples,faults,fuzz,deploy}/**/*.{ts,js,mjs,sql,yml,md}',
]
/**
 * Files that name statuses of their own choice: the rules, a demo's orders, examples of SQL, and tables of other shops'
 * statuses.
 */
const FREE = ['src/orders/order-status.ts', 'src/demo/plan-order.ts', 'src/lake/assert-lake-select.ts', 'docs/operate/move-in.md']

/** The files that cannot import `src/orders/order-status.ts`, and the text that they must contain instead. */
function placesOf(rules: Rules): [file: string, text: string][] {
  const all = Object.keys(rules)
  const quoted = (list: readonly string[]) => list.map((status) => `'${status}'`).join(', ')
  const isNone = (holds: (rule: StatusRule) => boolean) => {
    const list = all.filter((status) => holds(rules[status] as StatusRule))
    return list.length === 1 ? `status <> ${quoted(list)}` : `status not in (${quoted(list)})`
  }
  const isSold = isNone(({ phase }) => phase === 'ended')
  const isKept = isNone(({ moves }) => moves === 'cancelled')
  const isNoFirst = isNone(({ event }) => event === 'created')
  const ended = all.filter((status) => rules[status]?.phase === 'ended').map((status) => `@."status" == "${status}"`)
  const code = (list: readonly string[]) => list.map((word) => `\`${word}\``).join(', ')
  return [
    ['docs/schema.sql', `status = ANY (ARRAY[${all.map((status) => `'${status}'::text`).join(', ')}])`],
    // The index of unpaid orders.
    [
      'docs/schema.sql',
      `status = ANY (ARRAY[${all
        .filter((status) => rules[status]?.phase === 'open')
        .map((status) => `'${status}'::text`)
        .join(', ')}])`,
    ],
    // The index orders_changed_updated_at_idx. `MAY_DIFFER` must contain the same statuses.
    ['docs/schema.sql', ended.join(' || ')],
    ...['docs/schema.sql', 'src/orders/sql/pending-orders.sql'].map((file): [string, string] => [file, isNoFirst]),
    ...[
      ...['docs/schema.sql', 'src/orders/sql/place-orders.sql', 'docs/data/lake-queries.md'],
      ...['stg_orders', 'stg_order_lines'].map((model) => `examples/analytics/models/staging/${model}.sql`),
    ].map((file): [string, string] => [file, isSold]),
    ...[
      ...['docs/data/lake-queries.md', 'examples/analytics/models/marts/time_to_ship.sql', 'console/screens/lake-questions.ts'],
      'faults/independent-check.ts',
    ].map((file): [string, string] => [file, isKept]),
    ['examples/analytics/models/staging/schema.yml', `values: [${all.join(', ')}]`],
    ...Object.entries(rules).map(([status, { event, next, parts }]): [string, string] => [
      'docs/shop/stock.md',
      `| ${code([status])} | ${code([`storefront.order.${event}`])} | ${code(next)} | ${parts.join(', ')} |`.replaceAll('  ', ' '),
    ]),
  ]
}

/** Places that contradict the rules, and lists of statuses in any other file, each as a line that says what to do. */
function findStale(files: Files, rules: Rules): string[] {
  const places = placesOf(rules)
  const lacking = places.filter(([file, text]) => !files.get(file)?.includes(text))
  const status = `(?:${Object.keys(rules).join('|')})`
  const lists = new RegExp(
    `(['\`])${status}\\1(?:::text)?(?:, \\1${status}\\1(?:::text)?)+|\\[${status}(?:, ${status})+\\]|status (?:<>|not in) \\(?'${status}'`,
    'g',
  )
  // The changes of units have the same names.
  const known = (file: string) => [
    '`shipped`, `cancelled`, `returned`',
    ...places.flatMap(([place, text]) => (place === file ? [text] : [])),
  ]
  return [
    ...lacking.map(([file, text]) => `${file} must contain ${text}`),
    ...[...files].flatMap(([file, text]) =>
      [...text.matchAll(lists)].flatMap(([list]) =>
        FREE.includes(file) || known(file).some((place) => place.includes(list))
          ? []
          : [`${file} lists ${list}: ask src/orders/order-status.ts instead, or, where it cannot, add it to checks/statuses.test.ts`],
      ),
    ),
  ]
}

function readFiles(): Files {
  const names = globSync(FILES, { cwd: ROOT, exclude: ['**/*.test.ts', '**/node_modules/**', '**/target/**'] })
  return new Map(names.map((name) => [name, readFileSync(`${ROOT}/${name}`, 'utf8')]))
}

test('each place that cannot import the rules of order statuses agrees with them', () => {
  assert.deepEqual(findStale(readFiles(), RULES), [])
})

test('finds each place for a new status or a status that is no sale, and a list outside the rules', () => {
  const files = readFiles()
  const added = { ...RULES, extra: { ...ruleOf('confirmed'), event: 'extra' } }
  const concernedBy = (rules: Rules) => new Set(findStale(files, rules).map((line) => line.split(' ')[0] ?? ''))
  assert.deepEqual([...concernedBy(added)], ['docs/schema.sql', 'examples/analytics/models/staging/schema.yml', 'docs/shop/stock.md'])
  const withdrawn = { ...added, withdrawn: { ...ruleOf('cancelled'), event: 'withdrawn' } }
  const concerned = concernedBy(withdrawn)
  assert.deepEqual(
    placesOf(RULES).filter(([file]) => !concerned.has(file) && file !== 'src/orders/sql/pending-orders.sql'),
    [],
  )
  for (const list of [`status in ('shipped', 'returned')`, "['pending', 'confirmed']", `status <> 'returned'`, '[pending, delivered]']) {
    assert.equal(findStale(new Map([...files, ['src/x.sql', list]]), RULES).length, 1, list)
  }
})
