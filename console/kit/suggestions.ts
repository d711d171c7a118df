import { explain } from './api.ts'
import { field } from './form.ts'
import { type Content, html, note, nothing, ref } from './html.ts'
import { t } from './language.ts'

/** Pause after the last key before the store is asked. */
const PAUSE_MS = 200
const MIN_CHARACTERS = 2

interface Suggestions<T> {
  label: string
  name: string
  hint?: Content
  /** Finds the first few matches of the text. */
  find: (text: string, signal: AbortSignal) => Promise<readonly T[]>
  keyOf: (item: T) => string
  contentOf: (item: T) => Content
  /** Whether the text is the unique name of the item. */
  isNamed?: (item: T, text: string) => boolean
  onChoose: (item: T) => void
  update: () => void
  /** Aborts requests to the store. */
  signal: AbortSignal
}

/**
 * A text field that lists matches. Enter, which a scanner also sends, chooses the item with exactly that name or the
 * only match. It never sends the form.
 */
export function suggestions<T>(options: Suggestions<T>): () => Content {
  const { label, name, hint = nothing, find, keyOf, contentOf, isNamed = () => false, onChoose, update, signal } = options
  let input: HTMLInputElement | undefined
  let found: readonly T[] = []
  let fault = ''
  let isAsking = false
  let choosesNamed = false
  let asked = new AbortController()

  const clear = () => {
    asked.abort()
    asked = new AbortController()
    found = []
    fault = ''
    isAsking = choosesNamed = false
  }
  const choose = (item: T) => {
    clear()
    if (input !== undefined) input.value = ''
    onChoose(item)
    input?.focus()
    update()
  }
  const chooseNamed = (text: string) => {
    const item = found.find((each) => isNamed(each, text)) ?? (found.length === 1 ? found[0] : undefined)
    if (item !== undefined) choose(item)
  }
  const ask = async (text: string, until: AbortSignal) => {
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    if (until.aborted) return
    try {
      const answer = await find(text, until)
      if (until.aborted) return
      found = answer
      fault = answer.length === 0 ? t`Nothing is found for “${text}”.` : ''
    } catch (error) {
      if (until.aborted) return
      fault = explain(error)
    }
    isAsking = false
    if (choosesNamed) chooseNamed(text)
    choosesNamed = false
    update()
  }
  const onInput = () => {
    const text = input?.value.trim() ?? ''
    clear()
    isAsking = text.length >= MIN_CHARACTERS
    if (isAsking) void ask(text, AbortSignal.any([signal, asked.signal]))
    update()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter') return
    event.preventDefault()
    if (isAsking) choosesNamed = true
    else chooseNamed(input?.value.trim() ?? '')
  }
  return () => html`${field(
    label,
    html`<input name=${name} maxlength="254" autocomplete="off" @input=${onInput} @keydown=${onKeyDown}
      ${ref((element) => {
        input = element as HTMLInputElement | undefined
      })}>`,
    hint,
  )}
    <div role="status">${fault === '' ? nothing : note(fault)}</div>
    ${
      found.length === 0
        ? nothing
        : html`<ul class="chosen" aria-label="Found by ${label}">${found.map(
            (item) => html`<li data-key=${keyOf(item)}><button type="button" @click=${() => choose(item)}>${contentOf(item)}</button></li>`,
          )}</ul>`
    }`
}
