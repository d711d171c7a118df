import { hash } from 'node:crypto'
import { type Static, type TSchema, Type } from 'typebox'
import { Compile } from 'typebox/schema'
import { AppError } from '../errors.ts'

export const Limit = Type.Integer({ minimum: 1, maximum: 100, default: 20, description: 'The maximum number of items on a page.' })
export const Cursor = Type.String({
  minLength: 1,
  // Enough for a row's sort key: a name of 300 characters, up to four bytes each.
  maxLength: 2_000,
  description: 'The `next_cursor` of the previous page, with the same filters.',
})
export const DEFAULT_LIMIT = 20
export const EmailFilter = (description: string) => Type.String({ minLength: 1, maxLength: 254, 'x-input': 'email_filter', description })

/** Read by `readInstant`, because `date-time` allows leap seconds, and `Date` does not. */
export const Instant = (description: string) => Type.Optional(Type.String({ format: 'date-time', maxLength: 40, description }))

export function readInstant(parameter: string, text: string | undefined): Date | undefined {
  if (text === undefined) return undefined
  const time = new Date(text)
  if (!Number.isNaN(time.getTime())) return time
  throw new AppError('invalid_query', 'A query parameter is not valid.', { errors: [{ parameter, detail: 'is not a time' }] })
}

export function PageOf<T extends TSchema>(item: T) {
  const { title, examples } = item as { title?: string; examples?: unknown[] }
  return Type.Object(
    {
      data: Type.Array(item),
      has_more: Type.Boolean(),
      next_cursor: Type.Union([Type.String(), Type.Null()]),
    },
    {
      ...(title === undefined ? {} : { title: `${title}Page` }),
      ...(examples === undefined ? {} : { examples: [{ data: examples, has_more: false, next_cursor: null }] }),
    },
  )
}

export interface Page<T> {
  data: T[]
  has_more: boolean
  next_cursor: string | null
}

export interface PageText {
  text: string
  next_cursor: string | null
}

export const IdPosition = Type.Tuple([Type.String({ format: 'uuid' })])

const TAG_BYTES = 6

/** `scope` is the list, its sort and its filters. A forged cursor is harmless, and shows only rows of the list. */
export function encodeCursor(scope: readonly unknown[], position: readonly unknown[]): string {
  const payload = JSON.stringify(position)
  return Buffer.concat([tag(scope, payload), Buffer.from(payload)]).toString('base64url')
}

export function decodeCursor<T extends TSchema>(scope: readonly unknown[], cursor: string, schema: T): Static<T> {
  const bytes = Buffer.from(cursor, 'base64url')
  const payload = bytes.subarray(TAG_BYTES).toString('utf8')
  if (bytes.toString('base64url') === cursor && tag(scope, payload).equals(bytes.subarray(0, TAG_BYTES))) {
    const position = parsePosition(payload)
    if (isOf(schema, position)) return position
  }
  throw invalidCursor()
}

function invalidCursor(): AppError {
  return new AppError('invalid_cursor', 'The cursor does not belong to this list with these filters. Begin again without a cursor.', {
    errors: [{ parameter: 'cursor', detail: 'is not a cursor of this list' }],
  })
}

const checks = new WeakMap<TSchema, (value: unknown) => boolean>()

/** Compiles each schema once, because interpreting it takes longer than reading the page. */
function isOf<T extends TSchema>(schema: T, value: unknown): value is Static<T> {
  let check = checks.get(schema)
  if (check === undefined) {
    const compiled = Compile(schema)
    check = (candidate) => compiled.Check(candidate)
    checks.set(schema, check)
  }
  return check(value)
}

/** Undefined for text that is not JSON, which a forged cursor can contain. */
function parsePosition(payload: string): unknown {
  try {
    return JSON.parse(payload)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return undefined
  }
}

function tag(scope: readonly unknown[], payload: string): Buffer {
  return hash('sha256', JSON.stringify([scope, payload]), 'buffer').subarray(0, TAG_BYTES)
}

/** The query asked for `limit` + 1 rows, which shows whether a next page exists. */
export function toPage<Row, T>(rows: Row[], limit: number, toItem: (row: Row) => T, cursorAfter: (row: Row) => string): Page<T> {
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  const hasMore = rows.length > limit
  return { data: shown.map(toItem), has_more: hasMore, next_cursor: hasMore && last !== undefined ? cursorAfter(last) : null }
}

export interface Paging<Position> {
  limit: number
  after: Position | undefined
  cursorAfter: (position: readonly unknown[]) => string
  page: <Row, T>(rows: Row[], toItem: (row: Row) => T, positionOf: (row: Row) => readonly unknown[]) => Page<T>
}

/** `scope` is the list and its filters. Throws `invalid_cursor`. */
export function pagingOf<S extends TSchema>(
  scope: readonly unknown[],
  { limit = DEFAULT_LIMIT, cursor }: PageQuery,
  position: S,
): Paging<Static<S>> {
  const cursorAfter = (behind: readonly unknown[]) => encodeCursor(scope, behind)
  return {
    limit,
    after: cursor === undefined ? undefined : decodeCursor(scope, cursor, position),
    cursorAfter,
    page: (rows, toItem, positionOf) => toPage(rows, limit, toItem, (row) => cursorAfter(positionOf(row))),
  }
}

export interface PageQuery {
  limit?: number | undefined
  cursor?: string | undefined
}

/** RFC 8288. Undefined on the last page, and above 1,500 bytes. */
export function nextLink(baseUrl: string, path: string, query: Record<string, unknown>, cursor: string | null): string | undefined {
  if (cursor === null) return undefined
  const { cursor: _, ...rest } = query
  const parameters = Object.entries(rest).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]))
  return withinBound([linkTo(`${baseUrl}${path}`, parameters, 'next', cursor)])
}

/** nginx reads all headers into 4 KiB, and 3 KiB is the bound of this store. */
const MAX_LINK_BYTES = 1_500

/** RFC 8288. `parameters` have no cursor. Above 1,500 bytes the first page's link is omitted first. */
export function pageLinks(
  address: string,
  parameters: Readonly<Record<string, string | readonly string[]>>,
  cursors: { prev: string | null; next: string | null },
): string | undefined {
  const pairs = Object.entries(parameters).flatMap(([name, values]) => [values].flat().map((value) => [name, value]))
  const link = (rel: string, cursor?: string) => linkTo(address, pairs, rel, cursor)
  const { prev, next } = cursors
  return withinBound([link('first'), ...(prev === null ? [] : [link('prev', prev)]), ...(next === null ? [] : [link('next', next)])])
}

function linkTo(address: string, parameters: readonly string[][], rel: string, cursor?: string): string {
  const query = new URLSearchParams([...parameters, ...(cursor === undefined ? [] : [['cursor', cursor]])] as [string, string][]).toString()
  return `<${address}${query === '' ? '' : `?${query}`}>; rel="${rel}"`
}

function withinBound(links: readonly string[]): string | undefined {
  const fitting = [...links]
  while (fitting.join(', ').length > MAX_LINK_BYTES) fitting.shift()
  return fitting.length === 0 ? undefined : fitting.join(', ')
}
