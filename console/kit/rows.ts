import { type Content, html, nothing } from './html.ts'

/** A list in a form whose rows can be added, changed, moved and removed. The form counts them as one change. */
export interface Rows<T> {
  rows(): readonly T[]
  isChanged(): boolean
  edit(index: number, part: Partial<T>): void
  add(...rows: readonly T[]): void
  remove(index: number): void
  move(from: number, to: number): void
  /** Event handlers for dragging this row, and for dropping another row on it. */
  dragging(index: number): { start: () => void; over: (event: Event) => void; drop: (event: Event) => void }
  discard(): void
  /** Wraps the content of the rows with the attribute that tells the form about changes. */
  mark(content: Content): Content
}

/** `stored` returns the rows without the operator's changes. `onChange` renders the rows and counts the changes. */
export function createRows<T>(name: string, stored: () => readonly T[], onChange: () => void): Rows<T> {
  let edited: readonly T[] | null = null
  let dragged = -1
  const rows = () => edited ?? stored()
  const isChanged = () => edited !== null && JSON.stringify(edited) !== JSON.stringify(stored())
  const set = (next: readonly T[]) => {
    edited = next
    onChange()
  }
  const move = (from: number, to: number) => {
    const others = rows().filter((_, at) => at !== from)
    const moved = rows()[from]
    if (moved !== undefined && to >= 0 && to < rows().length) set(others.toSpliced(to, 0, moved))
  }
  return {
    rows,
    isChanged,
    move,
    edit: (index, part) => set(rows().map((row, at) => (at === index ? { ...row, ...part } : row))),
    add: (...more) => set([...rows(), ...more]),
    remove: (index) => set(rows().filter((_, at) => at !== index)),
    dragging: (index) => ({
      start() {
        dragged = index
      },
      over: (event) => event.preventDefault(),
      drop(event) {
        event.preventDefault()
        if (dragged >= 0) move(dragged, index)
        dragged = -1
      },
    }),
    discard() {
      edited = null
      onChange()
    },
    mark: (content) => html`<div class="rows" data-changed=${isChanged() ? name : nothing}>${content}</div>`,
  }
}

/** A text field of a row. The program holds its state, not the page. */
export function cell(
  {
    label,
    value,
    type = 'text',
    required = false,
    maxLength = 2_000,
    list,
    numeric = false,
  }: {
    label: string
    value: string
    type?: string
    required?: boolean
    maxLength?: number
    list?: string
    numeric?: boolean
  },
  onInput: (value: string) => void,
): Content {
  return html`<input aria-label=${label} type=${type} autocomplete="off" maxlength=${type === 'text' ? maxLength : nothing} ?required=${required}
    inputmode=${numeric ? 'decimal' : nothing} list=${list ?? nothing} .defaultValue=${value} .value=${value}
    @input=${({ currentTarget }: Event) => onInput((currentTarget as HTMLInputElement).value)}>`
}
