import { addressOf } from './address.ts'
import { type Answer, poll, read, restartable } from './api.ts'
import { choice, entered, type Option } from './form.ts'
import { alignment, type Column, type Content, html, loading, menu, nothing, repeat } from './html.ts'
import { t } from './language.ts'
import { savedViews } from './saved-views.ts'
import type { ScreenContext } from './screen.ts'
import { timeText, toInstant, toLocalTime } from './times.ts'

const PAGE_SIZE = 50
/** Largest page of the API, and largest number of items that can be selected at once. */
const LARGEST_PAGE = 100
const MOST_CHOSEN = 1_000

/** A filter that the operator adds. Its name in the address is that of the API's parameter. */
export interface Filter {
  name: string
  label: string
  /** The control, which is a text field by default. */
  kind?: 'text' | 'choice' | 'time'
  options?: readonly Option[]
  /** Attributes of the text field. */
  pattern?: string
  title?: string
  /** Turns the entered value into the API's, such as a SKU into an id. Throws for an invalid value. */
  resolve?: (entered: string) => Promise<string> | string
  /** The chip's text in place of the value. */
  text?: (value: string) => string | undefined
}

/** A named set of filters, shown above the list. */
export interface Tab {
  title: string
  filters: Readonly<Record<string, string>>
  count?: () => string | undefined
}

interface Page<T> {
  data: readonly T[]
  next_cursor: string | null
}

interface ResourceList<T> {
  /** The heading, such as `Orders`, which also names the table. */
  title: string
  /** The screen's name in the address, and parameters that always stay. */
  screen: string
  fixed?: Readonly<Record<string, string>>
  ask: (query: Record<string, string>, init: { signal: AbortSignal; headers: Record<string, string> }) => Promise<Answer<Page<T>>>
  keyOf: (item: T) => string
  columns: readonly Column<T>[]
  /** The address that a click on a row opens. */
  hrefOf?: (item: T) => string
  /** The placeholder of the search field. There is no search field without it. */
  search?: string
  filters?: readonly Filter[]
  tabs?: readonly Tab[]
  seconds: number
  /** Texts for the number of items, such as "2 orders", for an empty list, and for an empty list with filters. */
  words: { count: (count: number) => string; none: Content; noMatch: string }
  /** Content below the heading. */
  intro?: () => Content
  /** Buttons beside the heading. */
  actions?: () => Content
  /** Actions for the selected items. Without them the rows have no checkboxes. */
  selection?: { nameOf: (item: T) => string; actions: (chosen: readonly T[]) => Content }
  /** Whether the operator can save the filters under a name. */
  savesViews?: boolean
}

export interface List<T> {
  (): Content
  refresh(): void
  items(): readonly T[]
  chosen(): readonly T[]
  choose(items: readonly T[]): void
  /** The filters of the address in the form that the API takes. */
  query(): Record<string, string>
}

/**
 * A list of the API, which keeps itself up to date. The address has its search, filters and page, so Back returns to
 * the row.
 */
export function resourceList<T>(list: ResourceList<T>, context: ScreenContext): List<T> {
  const { parameters, signal, update, report, act, tell } = context
  const { fixed = {}, filters = [], tabs = [], selection } = list
  const names = [...(list.search === undefined ? [] : ['q']), ...filters.map(({ name }) => name)]
  const tabFilters = [...new Set(tabs.flatMap((tab) => Object.keys(tab.filters)))]
  const given = Object.fromEntries(
    [...names, ...tabFilters].flatMap((name) => (parameters.get(name) ? [[name, parameters.get(name) ?? '']] : [])),
  )
  const cursor = parameters.get('cursor')
  let page: Page<T> | null = null
  let fault: unknown = null
  const chosen = new Map<string, T>()
  let lastChosen = -1

  const query = () => ({ ...given, limit: String(PAGE_SIZE), ...(cursor === null ? {} : { cursor }) })
  const refresh = restartable(signal, (until) => {
    const onChange = (next: Page<T>) => {
      const isFirst = page === null
      const before = items()
      page = chosen.size === 0 ? next : withPushedOff(next, before, list.keyOf)
      const shown = new Map(page.data.map((item) => [list.keyOf(item), item]))
      // Items that no longer match a filter are deselected. Items of other pages stay selected.
      for (const item of before) if (!shown.has(list.keyOf(item))) chosen.delete(list.keyOf(item))
      for (const [key, item] of shown) if (chosen.has(key)) chosen.set(key, item)
      fault = null
      update()
      if (isFirst) restoreScroll()
    }
    const onError = (error: unknown, ended: unknown) => {
      fault = error
      report(error, ended)
    }
    void poll((init) => list.ask(query(), init), { seconds: list.seconds, signal: until, onChange, onError, endsAt: [400, 422] })
  })
  const restoreScroll = rememberScroll(signal)
  refresh()
  if (list.hrefOf !== undefined) listenToKeys(list.title, signal)

  const go = (next: Record<string, string | null>) => {
    location.hash = addressOf(list.screen, { ...fixed, ...given, ...next })
  }
  const search = async (event: Event) => {
    event.preventDefault()
    const texts = entered(new FormData(event.currentTarget as HTMLFormElement))
    const next: Record<string, string | null> = {}
    for (const [name, text] of Object.entries(texts)) {
      const filter = filters.find((one) => one.name === name)
      const value = filter?.kind === 'time' ? toInstant(text) : text
      next[name] = value === '' ? null : await (filter?.resolve?.(value) ?? value)
    }
    go(next)
  }
  const items = () => page?.data ?? []
  const chosenItems = () => [...chosen.values()]
  const choose = (event: MouseEvent, item: T) => {
    const isChosen = (event.currentTarget as HTMLInputElement).checked
    const index = items().indexOf(item)
    // Shift selects the range that begins with the last clicked box.
    const [from, to] = event.shiftKey && lastChosen !== -1 ? [Math.min(index, lastChosen), Math.max(index, lastChosen)] : [index, index]
    for (const each of items().slice(from, to + 1)) {
      if (isChosen) chosen.set(list.keyOf(each), each)
      else chosen.delete(list.keyOf(each))
    }
    lastChosen = index
    update()
  }
  const chooseAll = (wanted: readonly T[]) => {
    chosen.clear()
    for (const item of wanted) chosen.set(list.keyOf(item), item)
    update()
  }
  const chooseMatching = async () => {
    const found: T[] = []
    let next: string | null = null
    do {
      const asked: Record<string, string> = { ...given, limit: String(LARGEST_PAGE), ...(next === null ? {} : { cursor: next }) }
      const { data, next_cursor }: Page<T> = await read(list.ask(asked, { signal, headers: {} }))
      found.push(...data)
      next = next_cursor
    } while (next !== null && found.length < MOST_CHOSEN)
    chooseAll(found.slice(0, MOST_CHOSEN))
    if (next !== null) tell(t`More match: the first ${MOST_CHOSEN} are selected.`)
  }

  const controlOf = (filter: Filter): Content => {
    const value = given[filter.name] ?? ''
    if (filter.kind === 'choice') {
      // A value of the address that is no option stays, for example one of another release.
      const own = value === '' || optionOf(filter, value) !== undefined ? [] : [value]
      return choice({ name: filter.name, label: filter.label }, [['', t`all`], ...(filter.options ?? []), ...own], value)
    }
    if (filter.kind === 'time') return html`<input type="datetime-local" name=${filter.name} .value=${toLocalTime(value)}>`
    return html`<input name=${filter.name} autocomplete="off" pattern=${filter.pattern ?? nothing} title=${filter.title ?? nothing} .value=${filter.text?.(value) ?? value}>`
  }
  const chip = (filter: Filter) => {
    const value = given[filter.name]
    if (value === undefined) return nothing
    const text = filter.kind === 'time' ? timeText(new Date(value)) : (filter.text?.(value) ?? optionText(filter, value))
    return html`<a class="chip" href=${addressOf(list.screen, { ...fixed, ...given, [filter.name]: null })} aria-label=${t`Remove the filter ${filter.label}: ${text}`}>${filter.label}: ${text} ×</a>`
  }
  const isTab = (tab: Tab) => tabFilters.every((name) => given[name] === tab.filters[name])
  const others = () => Object.fromEntries(Object.entries(given).filter(([name]) => !tabFilters.includes(name)))

  const views = list.savesViews ? savedViews(list.screen, context) : null
  const bar = () => html`
    ${
      tabs.length === 0
        ? nothing
        : html`<nav class="tabs" aria-label="${list.title}: groups">${tabs.map(
            (tab) => html`
      <a href=${addressOf(list.screen, { ...fixed, ...others(), ...tab.filters })} aria-current=${isTab(tab) ? 'true' : nothing}>${tab.title}${tab.count?.() === undefined ? nothing : html` <span class="count">${tab.count?.()}</span>`}</a>`,
          )}${views?.tabs(given)}</nav>`
    }
    ${
      names.length === 0
        ? nothing
        : html`<form class="filters" role="search" aria-label=${list.title} @submit=${act(search)}>
      ${list.search === undefined ? nothing : html`<input type="search" name="q" aria-label="Search" placeholder=${list.search} minlength="2" maxlength="100" autocomplete="off" .value=${given.q ?? ''}>`}
      ${filters.length === 0 ? nothing : menu(t`Filter`, html`<div class="fields">${filters.map((filter) => html`<label>${filter.label}${controlOf(filter)}</label>`)}<button type="submit" class="primary">Apply</button></div>`)}
      ${list.search === undefined ? nothing : html`<button type="submit">Search</button>`}
      ${filters.map(chip)}
      ${Object.keys(given).length === 0 ? nothing : html`<a href=${addressOf(list.screen, fixed)}>Clear</a>`}
      ${views?.button(given)}
    </form>`
    }`

  const row = (item: T) => {
    const key = list.keyOf(item)
    const href = list.hrefOf?.(item)
    return html`<tr class=${href === undefined ? '' : 'opens'} @click=${href === undefined ? nothing : (event: MouseEvent) => openRow(event, href)}>
      ${selection === undefined ? nothing : html`<td><input type="checkbox" aria-label=${t`Select ${selection.nameOf(item)}`} .checked=${chosen.has(key)} @click=${(event: MouseEvent) => choose(event, item)}></td>`}
      ${list.columns.map((column, index) => html`<td class=${alignment(column)}>${index === 0 && href !== undefined ? html`<a href=${href}>${column.cell(item)}</a>` : column.cell(item)}</td>`)}
    </tr>`
  }
  const selectAll = () => {
    const isAll = items().length > 0 && items().every((item) => chosen.has(list.keyOf(item)))
    return html`<input type="checkbox" aria-label="Select all of this page" .checked=${isAll} @click=${() => chooseAll(isAll ? [] : items())}>`
  }
  const rows = (shown: readonly T[]) => html`<div class="scroll" tabindex="0" role="region" aria-label=${list.title}><table class="list">
    <caption class="hidden">${list.title}</caption>
    <thead><tr>
      ${selection === undefined ? nothing : html`<th scope="col">${selectAll()}</th>`}
      ${list.columns.map((column) => html`<th scope="col" class=${alignment(column)}>${column.title}</th>`)}
    </tr></thead>
    <tbody>${repeat(shown, list.keyOf, row)}</tbody>
  </table></div>`
  const pages = () => {
    const count = items().length
    const more = page?.next_cursor ? t`, and more` : ''
    return html`<nav class="actions" aria-label="${list.title}: pages">
      ${cursor === null ? nothing : html`<a href=${addressOf(list.screen, { ...fixed, ...given })}>First page</a>`}
      ${page?.next_cursor ? html`<a rel="next" href=${addressOf(list.screen, { ...fixed, ...given, cursor: page.next_cursor })}>Next page</a>` : nothing}
      <span class="muted" role="status">${count === 0 ? nothing : list.words.count(count) + more}</span>
    </nav>`
  }
  const content = () => {
    if (page === null) return loading(fault)
    if (page.data.length === 0)
      return html`<p class="muted" role="status">${Object.keys(given).length === 0 && cursor === null ? list.words.none : list.words.noMatch}</p>`
    return rows(page.data)
  }
  const hasMore = () => (cursor !== null || page?.next_cursor !== null) && items().every((item) => chosen.has(list.keyOf(item)))
  const floating = () => {
    if (selection === undefined || chosen.size === 0) return nothing
    return html`<div class="selection-bar" role="region" aria-label="Selection"><strong>${chosen.size} selected</strong>
      ${hasMore() ? html`<button type="button" @click=${act(chooseMatching)}>Select all that match</button>` : nothing}
      ${selection.actions(chosenItems())}
      <button type="button" @click=${() => chooseAll([])}>Clear selection</button></div>`
  }
  const show = () =>
    html`<div class="title"><h2>${list.title}</h2><div class="actions">${list.actions?.()}</div></div>${list.intro?.()}${bar()}${content()}${pages()}${floating()}`
  return Object.assign(show, { refresh, items, chosen: chosenItems, choose: chooseAll, query: () => ({ ...given }) })
}

/** Keeps items on the page that newer ones would push off it, so a selection stays visible. */
function withPushedOff<T>(next: Page<T>, before: readonly T[], keyOf: (item: T) => string): Page<T> {
  const last = next.data.at(-1)
  if (next.next_cursor === null || last === undefined) return next
  const keys = new Set(next.data.map(keyOf))
  const at = before.findIndex((item) => keyOf(item) === keyOf(last))
  return { ...next, data: [...next.data, ...before.slice(at + 1).filter((item) => !keys.has(keyOf(item)))] }
}

function optionOf(filter: Filter, value: string): Option | undefined {
  return filter.options?.find((one) => (typeof one === 'string' ? one : one[0]) === value)
}

function optionText(filter: Filter, value: string): string {
  const option = optionOf(filter, value)
  return option === undefined ? value : typeof option === 'string' ? option : option[1]
}

/** A click anywhere in a row opens it, except on the row's controls or while text is selected. */
function openRow(event: MouseEvent, href: string): void {
  if ((event.target as Element).closest('a, button, input, label, select') !== null || getSelection()?.toString()) return
  if (event.ctrlKey || event.metaKey) window.open(href)
  else location.hash = href
}

/** `j` and `k` move through the rows, and `x` selects a row. Enter opens the focused link. */
function listenToKeys(title: string, signal: AbortSignal): void {
  const onKey = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !'jkx'.includes(event.key)) return
    if ((event.target as Element).closest('input:not([type=checkbox]), select, textarea, dialog') !== null) return
    const links = [...document.querySelectorAll<HTMLElement>(`[role=region][aria-label="${CSS.escape(title)}"] tbody a:first-of-type`)]
    const rows = [...new Set(links.map((link) => link.closest('tr')))]
    const at = rows.findIndex((row) => row?.contains(document.activeElement))
    if (event.key === 'x') rows[at]?.querySelector<HTMLElement>('input[type=checkbox]')?.click()
    else rows[Math.max(0, Math.min(rows.length - 1, at + (event.key === 'j' ? 1 : -1)))]?.querySelector('a')?.focus()
  }
  document.addEventListener('keydown', onKey, { signal })
}

/** The scroll position of each list when the operator left it. */
const scrolled = new Map<string, number>()

/** Returns a function to call when the list has its rows. Before that the page is too short to scroll. */
function rememberScroll(signal: AbortSignal): () => void {
  const address = location.hash
  const top = scrolled.get(address) ?? 0
  const remember = () => location.hash === address && scrolled.set(address, window.scrollY)
  return () =>
    setTimeout(() => {
      if (top > 0) window.scrollTo({ top })
      window.addEventListener('scroll', remember, { signal, passive: true })
    })
}
