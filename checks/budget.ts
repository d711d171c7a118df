import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { listFiles } from './documents.ts'

/** The size of the program and of its repetition, measured or allowed. */
export interface Sizes {
  /** Characters without white space by room, with tests separate. Characters count because lines can be made long. */
  characters: Record<string, number>
  /** The files that a change of this kind touches by hand, which its recipe in CONTRIBUTING.md names. */
  places: Record<string, number>
  /** Phrases in comments and documents that STYLE wants to disappear. */
  turns: Record<string, number>
}

/** The allowed sizes. A number falls by itself, and rises only with a line that names the user's benefit. */
export interface Budget extends Sizes {
  rises: { of: string; by: number; gives: string }[]
}

/** The share by which a room may grow without a line, because a fix is not a feature. */
const SLACK = 0.01

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const CODE = /\.(ts|mjs|js|css|html|sql)$/
const isTest = (path: string) => path.endsWith('.test.ts') || /^(test|fuzz|faults|bench|checks)\//.test(path)
const isGenerated = (path: string) => /^client\/.*schema(\.d)?\.ts$/.test(path)
const FOLDERS = ['src', 'client', 'console', 'migrations', 'examples', 'test', 'fuzz', 'faults', 'bench', 'checks']

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')

/** The room of a file: `src/orders/placing/x.ts` belongs to the room `src/orders`, and `src/money.ts` to `src`. */
function roomOf(path: string): string {
  if (isTest(path)) return 'tests'
  const [folder = '', room = '', ...rest] = path.split('/')
  return folder === 'src' && rest.length > 0 ? `src/${room}` : folder
}

function countCharacters(): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const path of FOLDERS.flatMap((folder) => listFiles(ROOT, folder))) {
    if (!CODE.test(path) || isGenerated(path)) continue
    const room = roomOf(path)
    counts[room] = (counts[room] ?? 0) + read(path).replace(/\s/g, '').length
  }
  return counts
}

const RECIPES = {
  'an order status': 'An order status',
  'a subscriber': 'A subscriber of the topic',
  'a column of an order': 'A column of an order',
  'a list': 'A list:',
  'a setting': 'A setting',
} as const

/** Counts the files and folders in backticks in the recipe of each kind of change. */
function countPlaces(): Record<string, number> {
  const recipes = read('CONTRIBUTING.md').split(/^- (?=\*\*)/m)
  return Object.fromEntries(
    Object.entries(RECIPES).map(([kind, title]) => {
      const recipe = recipes.find((text) => text.startsWith(`**${title}`)) ?? ''
      const [own = ''] = recipe.split(/\n(?=#|\n)/)
      return [kind, new Set(own.match(/`[\w./-]*(?:\/|\.(?:ts|md|yaml|sql))[\w./-]*`/g)).size]
    }),
  )
}

const TURNS = {
  'a comment that begins with "Of"': /^\s*(?:\/\*\*|\/\/|\*|--) Of\b/gm,
  'a comment that begins with As, Also, Without, Null, Not, Only, Those or Else':
    /^\s*(?:\/\*\*|\/\/|\*|--) (?:As|Also|Without|Null|Not|Only|Those|Else)\b/gm,
  'of before, by now, as it is now, the release before': /\b(?:of before|by now|as it is now|the release before)\b/gi,
  'nobody but, none but': /\b(?:nobody|none) but\b/gi,
} as const

const LONG_LINE = 'a line of a document or a comment of more than 120 columns'
const COMMENT = /^\s*(?:\/\/|\*|--)/

function countTurns(): Record<string, number> {
  const paths = [...FOLDERS, 'docs'].flatMap((folder) => listFiles(ROOT, folder)).filter((path) => CODE.test(path) || path.endsWith('.md'))
  const counted = paths.filter((path) => !isGenerated(path) && path !== 'checks/budget.ts')
  const texts = counted.map(read)
  const long = counted.flatMap((path) =>
    read(path)
      .split('\n')
      .filter((line) => line.length > 120 && (path.endsWith('.md') ? !line.startsWith('|') : COMMENT.test(line))),
  )
  return {
    ...Object.fromEntries(
      Object.entries(TURNS).map(([turn, pattern]) => [turn, texts.reduce((sum, text) => sum + (text.match(pattern)?.length ?? 0), 0)]),
    ),
    [LONG_LINE]: long.length,
  }
}

/** The sizes of this checkout. */
export function measure(): Sizes {
  return { characters: countCharacters(), places: countPlaces(), turns: countTurns() }
}

export const BUDGET_PATH = 'checks/budget.json'

export function readBudget(): Budget {
  return JSON.parse(read(BUDGET_PATH)) as Budget
}

const KINDS = ['characters', 'places', 'turns'] as const

function most({ rises, ...sizes }: Budget, kind: (typeof KINDS)[number], name: string): number {
  return rises.reduce((sum, { of, by }) => (of === name ? sum + by : sum), sizes[kind][name] ?? 0)
}

/** Describes the sizes that are above the budget. */
export function findAbove(sizes: Sizes, budget: Budget): string[] {
  return KINDS.flatMap((kind) =>
    Object.entries(sizes[kind]).flatMap(([name, size]) => {
      const allowed = most(budget, kind, name)
      const isAbove = size > (kind === 'characters' ? allowed * (1 + SLACK) : allowed)
      return isAbove ? [`${name}: ${size}, which is ${size - allowed} above its budget`] : []
    }),
  )
}

/** The budget, lowered to each smaller size. The sizes then include the allowed rises. */
export function lower(sizes: Sizes, budget: Budget): Budget {
  const lowered = (kind: (typeof KINDS)[number]) =>
    Object.fromEntries(
      Object.entries(sizes[kind])
        .map(([name, size]) => [name, Math.min(size, most(budget, kind, name))] as const)
        .toSorted(([a], [b]) => (a < b ? -1 : 1)),
    )
  return { characters: lowered('characters'), places: lowered('places'), turns: lowered('turns'), rises: [] }
}
