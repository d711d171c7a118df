import { poll, restartable, withQuery } from './api.ts'
import { button, create, link, replaceChildren } from './dom.ts'
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
  /** Asks now, and from now on. */
  const refresh = restartable(signal, (until) => {
    void poll<{ data: readonly T[]; next_cursor: string | null }>(withQuery(path, { ...filters, limit: PAGE_SIZE, cursor }), {
      seconds,
      signal: until,
      onError: report,
      onChange: ({ data, next_cursor }) => {
        rows.show(data)
        const first = cursor !== null && link(addressOf({}), 'First page')
        replaceChildren(links, first, next_cursor !== null && link(addressOf({ cursor: next_cursor }), words.more))
        count.textContent = data.length === 0 ? words.none : ''
      },
    })
  })
  refresh()
  return { elements: [rows.element, links, count], refresh }
}

/** A button that loads the next page, once at a time. It is hidden until there is one. */
export function moreButton(text: string, load: () => Promise<void>, report: (error: unknown) => void): HTMLButtonElement {
  const more = button(text, () => {
    more.disabled = true
    return load()
      .catch(report)
      .finally(() => {
        more.disabled = false
      })
  })
  more.hidden = true
  return more
}
