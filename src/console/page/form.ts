import { type Child, create } from './dom.ts'

export interface FormOptions {
  /** The text of the button that sends the form. */
  submit: string
  signal: AbortSignal
  /** Sends the form; an error is shown in it, and what was entered stays. */
  onSubmit: (data: FormData) => Promise<void>
  /** Buttons behind the one that sends. */
  actions?: readonly HTMLButtonElement[]
}

/** A form that cannot be sent twice at once, with a line for the error of the last attempt. */
export function sendForm({ submit, signal, onSubmit, actions = [] }: FormOptions, ...children: Child[]): HTMLFormElement {
  const fault = create('p', { class: 'error', attributes: { role: 'alert' } })
  const send = create('button', { type: 'submit', class: 'primary' }, submit)
  const form = create('form', { class: 'fields' }, ...children, fault, create('div', { class: 'actions' }, send, ...actions))
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    if (send.disabled) return
    const buttons = [send, ...actions]
    for (const button of buttons) button.disabled = true
    fault.textContent = ''
    try {
      await onSubmit(new FormData(form))
    } catch (error) {
      if (!signal.aborted) fault.textContent = explainError(error as Error)
    } finally {
      for (const button of buttons) button.disabled = false
    }
  })
  return form
}

/** A refusal in its own words; a store that does not answer throws TypeError. */
export function explainError(error: Error): string {
  return error instanceof TypeError
    ? 'The store does not answer. Nothing you have entered is lost: send it again in a moment.'
    : error.message
}

/** A form above a list. `onSearch` gets what was entered by the names of its controls, without blanks around it. */
export function searchForm(label: string, onSearch: (entered: Record<string, string>) => void, ...children: Child[]): HTMLFormElement {
  const form = create('form', { class: 'filters', attributes: { role: 'search', 'aria-label': label } }, ...children)
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    onSearch(Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()])))
  })
  return form
}

/** A control behind its label. */
export function labelled(label: string, control: HTMLElement): HTMLElement {
  return create('label', {}, `${label} `, control)
}

/** A line of text, which the browser does not suggest. */
export function textInput(name: string, properties: Parameters<typeof create<'input'>>[1]): HTMLInputElement {
  return create('input', { name, autocomplete: 'off', ...properties })
}

/** A control with its label, and a hint below. */
export function field(label: string, control: HTMLElement, hint?: string): HTMLElement {
  return create('label', {}, label, control, hint === undefined ? null : create('small', { class: 'muted' }, hint))
}

/** A list to choose one of: values, or values with their text. */
export function choice(
  properties: { name?: string; ariaLabel?: string },
  options: readonly (string | readonly [value: string, text: string])[],
  chosen: string,
): HTMLSelectElement {
  const pairs = options.map((option) => (typeof option === 'string' ? ([option, option] as const) : option))
  const element = create('select', properties, ...pairs.map(([value, text]) => create('option', { value }, text)))
  element.value = chosen
  return element
}
