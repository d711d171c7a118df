import { withQuery } from './api.ts'
import { create } from './dom.ts'
import { poll } from './poll.ts'
import type { ScreenContext } from './screen.ts'

const PAGE_SIZE = 20

interface PagedList<T> {
  /** The call of the API, and the parameters of it besides the page. */
  path: string
  filters?: Readonly<Record<string, string>>
  seconds: number
  rows: { element: HTMLElement; show(items: readonly T[]): void }
  /** The address in the console of the page that begins at a cursor, and of the first one. */
  addressOf(page: { cursor?: string }): string
  words: { more: string; none: string }
}

/** A list of the API, one page at a time, which keeps itself up to date. The address has the page. */
export function pagedList<T>(
  { path, filters = {}, seconds, rows, addressOf, words }: PagedList<T>,
  { parameters, signal, report }: Pick<ScreenContext, 'parameters' | 'signal' | 'report'>,
): { elements: HTMLElement[]; refresh(): void } {
  const cursor = parameters.get('cursor')
  const links = create('p', { class: 'actions' })
  const count = create('p', { class: 'muted', attributes: { role: 'status' } })
  let polling = new AbortController()

  /** Asks now, and from now on. */
  function refresh(): void {
    polling.abort()
    polling = new AbortController()
    poll<{ data: readonly T[]; next_cursor: string | null }>(withQuery(path, { ...filters, limit: PAGE_SIZE, cursor }), {
      seconds,
      signal: AbortSignal.any([signal, polling.signal]),
      onError: report,
      onChange: ({ data, next_cursor }) => {
        rows.show(data)
        links.replaceChildren(
          ...(cursor === null ? [] : [create('a', { href: addressOf({}) }, 'First page')]),
          ...(next_cursor === null ? [] : [create('a', { href: addressOf({ cursor: next_cursor }) }, words.more)]),
        )
        count.textContent = data.length === 0 ? words.none : ''
      },
    })
  }
  refresh()
  return { elements: [rows.element, links, count], refresh }
}
