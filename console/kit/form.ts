import { explain } from './api.ts'
import { type Content, html, nothing, ref } from './html.ts'
import { plural, t } from './language.ts'
import type { ScreenContext } from './screen.ts'

type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement

export interface FormOptions {
  /** Sends the form. An error appears beside the buttons, and the entered values stay. */
  onSubmit: (data: FormData, form: HTMLFormElement) => Promise<unknown>
  /** The text of the button that sends the form. */
  submit?: string
  /**
   * More buttons after the submit button. A button that also submits the form has a name, and the form data has its
   * value.
   */
  actions?: (isSending: boolean) => Content
  /** Marks a form whose effect can hardly be undone. */
  danger?: boolean
  /**
   * Marks a form for existing values: a bar counts and discards the changes. Stored values are in `.defaultValue`,
   * `.defaultChecked` or `?selected`. A newer stored value replaces only values that the operator has not changed.
   */
  edits?: boolean
}

export interface Form {
  (fields: Content): Content
  /** The names of the controls that differ from their stored values, and the `data-changed` of other elements. */
  changes(): string[]
  /** Counts the changes again. Call it after a program has changed the form. */
  recount(): void
  /** Renders newer stored values in all controls, or only in those that the operator has not changed. */
  follow(render: () => void, which?: 'unchanged' | 'all'): Promise<void>
}

/** The number of unsaved changes of each form. */
const changesOf = new WeakMap<HTMLFormElement, () => number>()

/** The number of unsent changes of the forms inside `root`. */
export function unsentChanges(root: ParentNode): number {
  return [...root.querySelectorAll('form')].reduce((sum, form) => sum + (changesOf.get(form)?.() ?? 0), 0)
}

/** A form that cannot be sent twice at once. The console asks before the entered values are lost. */
export function createForm(
  { update }: Pick<ScreenContext, 'update'>,
  { onSubmit, submit = t`Save`, actions = () => nothing, danger = false, edits = false }: FormOptions,
): Form {
  let element: HTMLFormElement | undefined
  let isSending = false
  let fault = ''
  let count = 0
  /** Whether the entered values were sent. */
  let isSent = false
  const changes = () => {
    if (element === undefined) return []
    const controls = [...element.querySelectorAll<Control>('input, select, textarea')]
      .filter((control) => control.name !== '' && isChanged(control))
      .map(({ name }) => name)
    const others = [...element.querySelectorAll<HTMLElement>('[data-changed]')].map(({ dataset }) => dataset.changed ?? '')
    return [...new Set([...controls, ...others])]
  }
  const recount = () => {
    count = changes().length
    update()
  }
  const follow = async (render: () => void, which = 'unchanged') => {
    const kept = which === 'all' ? [] : changes()
    render()
    await new Promise((resolve) => setTimeout(resolve))
    if (element === undefined) return
    showStored(element, kept)
    recount()
  }
  const onInput = () => {
    isSent = false
    if (edits) recount()
  }

  async function send(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    if (isSending || element === undefined) return
    isSending = true
    fault = ''
    update()
    try {
      await onSubmit(new FormData(element, event.submitter), element)
      isSent = !edits
    } catch (error) {
      fault = explain(error)
    } finally {
      isSending = false
      update()
      // Runs after the saved values were rendered.
      setTimeout(recount)
    }
  }

  const discard = () => {
    element?.reset()
    fault = ''
    recount()
  }

  const form = (fields: Content) => html`
    <form class="fields" ${ref((shown) => {
      element = shown as HTMLFormElement | undefined
      // A file is chosen again with one click, so nothing is lost.
      if (element !== undefined)
        changesOf.set(element, () => (isSent || (!edits && element?.querySelector('[type=file]')) ? 0 : changes().length))
    })} @submit=${send} @input=${onInput} @change=${onInput}>
      ${fields}
      <p class="error" role="alert">${fault}</p>
      <div class=${edits && count > 0 ? 'actions save-bar' : 'actions'}>
        ${edits && count > 0 ? html`<span role="status">${plural(count, t`${count} change`, t`${count} changes`)}</span>` : nothing}
        <button type="submit" class=${danger ? 'danger' : 'primary'} ?disabled=${isSending || (edits && count === 0)}>${submit}</button>
        ${edits && count > 0 ? html`<button type="button" ?disabled=${isSending} @click=${discard}>Discard</button>` : nothing}
        ${actions(isSending)}
      </div>
    </form>`
  return Object.assign(form, { changes, recount, follow })
}

function isChanged(control: Control): boolean {
  if (control instanceof HTMLSelectElement) {
    const options = [...control.options]
    const stored = options.some(({ defaultSelected }) => defaultSelected)
    return stored ? options.some(({ selected, defaultSelected }) => selected !== defaultSelected) : control.selectedIndex > 0
  }
  if (control.type === 'checkbox' || control.type === 'radio')
    return (control as HTMLInputElement).checked !== (control as HTMLInputElement).defaultChecked
  if (control.type === 'file') return control.value !== ''
  return control.value !== control.defaultValue
}

/** A control with its label and a hint, which screen readers read with the control. */
export function field(label: string, control: Content, hint: Content = nothing): Content {
  return html`<div class="field"><label><span>${label}</span>${control}</label>${hint === nothing ? nothing : html`<small class="muted">${hint}</small>`}</div>`
}

export type Option = string | readonly [value: string, text: string]

/** A select control. Its options are values, or values with their texts. */
export function choice(
  { name, label, onChange }: { name: string; label?: string; onChange?: (value: string) => void },
  options: readonly Option[],
  chosen: string,
): Content {
  const pairs = options.map((option) => (typeof option === 'string' ? ([option, option] as const) : option))
  const change = onChange === undefined ? nothing : ({ currentTarget }: Event) => onChange((currentTarget as HTMLSelectElement).value)
  return html`<select name=${name} aria-label=${label ?? nothing} @change=${change}>
    ${pairs.map(([value, text]) => html`<option value=${value} ?selected=${value === chosen}>${text}</option>`)}
  </select>`
}

/** Shows the stored values in all controls that `except` does not name. */
function showStored(form: HTMLFormElement, except: readonly string[]): void {
  for (const control of form.querySelectorAll<Control>('input, select, textarea')) {
    if (control.name === '' || except.includes(control.name)) continue
    if (control instanceof HTMLSelectElement) for (const option of control.options) option.selected = option.defaultSelected
    else control.value = control.defaultValue
  }
}

/** The entered values by the names of the controls, without surrounding blanks. */
export function entered(data: FormData): Record<string, string> {
  return Object.fromEntries([...data].map(([name, value]) => [name, typeof value === 'string' ? value.trim() : '']))
}
