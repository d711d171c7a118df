import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { currenciesWithDigits } from '../client/src/currency.ts'

const RARE = [...currenciesWithDigits(0), ...currenciesWithDigits(3)]
const TABLE = 'client/src/currency.ts'
/** SQL cannot import, so its lists are compared with the table. */
const SQL_LISTS = 'examples/analytics/plain-files.sql'

/** Files that pair several currencies without two decimals with a number of decimals. */
function findTables(texts: ReadonlyMap<string, string>): string[] {
  const entry = new RegExp(
    `\\b(${RARE.join('|')})\\b['"]?\\s*(?::|=>?|,|then)\\s*[034]\\b|\\b(?:[034]|zero)\\b[^\\n]{0,40}\\[?['"](${RARE.join('|')})['"]\\s*,\\s*['"](?:${RARE.join('|')})['"]|['"](${RARE.join('|')})['"]\\s*,\\s*['"](?:${RARE.join('|')})['"]\\s*,\\s*['"](?:${RARE.join('|')})['"]`,
    'g',
  )
  return [...texts].filter(([, text]) => [...text.matchAll(entry)].length > 1).map(([path]) => path)
}

test("there is one table of currencies' decimals", () => {
  const root = new URL('..', import.meta.url)
  const paths = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8', maxBuffer: 1e8 })
    .split('\n')
    .filter(
      (path) =>
        /\.(ts|mjs|js|sql|json|vcl|html)$/.test(path) && !/\.test\.ts$|^openapi\.json|^package-lock|^docs\/(schemas|asyncapi)/.test(path),
    )
  const texts = new Map(
    paths.flatMap((path) => {
      try {
        return [[path, readFileSync(new URL(path, root), 'utf8')] as const]
      } catch (error) {
        // The file is deleted, and the deletion is not committed yet.
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
        throw error
      }
    }),
  )
  assert.deepEqual(findTables(texts).sort(), [TABLE, SQL_LISTS].sort())
  const [macro = ''] = /macro storefront\.exponent_of[\s\S]*?;/.exec(texts.get(SQL_LISTS) ?? '') ?? []
  const listed = macro.match(/'[A-Z]{3}'/g)?.map((code) => code.slice(1, -1)) ?? []
  assert.deepEqual([...listed].sort(), [...RARE].sort())
  const second = 'const DIGITS = { JPY: 0, KRW: 0, BHD: 3 }'
  const list = `const ZERO = ['JPY', 'KRW', 'VND', 'CLP', 'ISK', 'XAF']`
  assert.deepEqual(
    findTables(
      new Map([
        ['a.mjs', second],
        ['b.ts', list],
        ['c.ts', `price('JPY', 300)`],
      ]),
    ),
    ['a.mjs', 'b.ts'],
  )
})
