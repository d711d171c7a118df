import { html, nothing, render, type TemplateResult } from 'lit-html'
import { explain } from './problems.ts'
import { t } from './session.ts'

export interface Dialog {
  close(): void
  /** Renders the content again. */
  update(): void
}

/** Opens a modal dialog. Resolves when the dialog is closed. */
export async function openDialog(title: string, content: (dialog: Dialog) => TemplateResult): Promise<void> {
  const element = document.createElement('dialog')
  element.ariaLabel = title
  const close = () => element.close()
  const update = () =>
    render(
      html`<h2>${title}</h2>${content({ close, update })}<p class="actions"><button type="button" id="close" @click=${close}>${t('Close')}</button></p>`,
      element,
    )
  document.body.append(element)
  update()
  // The close button gets the focus in a dialog without fields, so the first key changes nothing.
  if (element.querySelector('input') === null) (element.querySelector('#close') as HTMLElement).autofocus = true
  element.showModal()
  await new Promise((resolve) => element.addEventListener('close', resolve, { once: true }))
  element.remove()
}

/** The place in a form or dialog that shows a refusal or a success. */
export const alerts = html`<p role="status"></p><p class="error" role="alert"></p>`

/** A refusal by the shop itself. The message gives the customer the reason. */
export class Refusal extends Error {}

/**
 * Does the work of a button or form, which is disabled meanwhile. The nearest `alerts` show the result or the refusal.
 * Returns whether the work was done.
 */
export async function attempt(event: Event, work: () => Promise<unknown>, explainOther = explain): Promise<boolean> {
  event.preventDefault()
  const target = event.currentTarget as HTMLElement
  const button = ((event as SubmitEvent).submitter ?? target) as HTMLButtonElement
  const root = target.closest('form:has([role=alert]), dialog, main')
  const say = (role: 'status' | 'alert', text: string) => root?.querySelector(`[role=${role}]`)?.replaceChildren(text)
  say('status', '')
  say('alert', '')
  button.disabled = true
  try {
    const done = await work()
    if (typeof done === 'string') say('status', done)
    return true
  } catch (error) {
    say('alert', explainOther(error))
    return false
  } finally {
    button.disabled = false
    // A disabled button has lost the focus.
    if (document.activeElement === document.body) button.focus()
  }
}

export interface Question {
  text?: readonly string[]
  label?: string
  /** Attributes of the input. There is no input when this is absent. */
  input?: { type: string; autocomplete: string; minLength?: number; maxLength: number }
  action?: string
  send?: (text: string) => Promise<unknown>
  /** Other ways to answer. The keys are the texts of their buttons. */
  others?: Readonly<Record<string, () => Promise<unknown>>>
  explain?: (error: unknown) => string
}

/** Asks in a dialog that stays open while an answer is refused. Returns whether an answer was accepted. */
export async function ask(
  title: string,
  { text = [], label, input, action, send, others = {}, explain: explainIt }: Question,
): Promise<boolean> {
  let isAccepted = false
  await openDialog(title, ({ close }) => {
    const answer = async (event: Event, give: () => Promise<unknown>) => {
      isAccepted = await attempt(
        event,
        async () => {
          await give()
        },
        explainIt,
      )
      if (isAccepted) close()
    }
    const submit = (event: SubmitEvent) =>
      answer(event, async () => send?.(String(new FormData(event.currentTarget as HTMLFormElement).get('answer') ?? '')))
    return html`<form @submit=${submit}>
${text.map((paragraph) => html`<p>${paragraph}</p>`)}
${
  input === undefined
    ? nothing
    : html`<label>${label} <input name="answer" required spellcheck="false" type=${input.type} autocomplete=${input.autocomplete}
minlength=${input.minLength ?? nothing} maxlength=${input.maxLength}></label>`
}
${alerts}
<p class="actions">${action === undefined ? nothing : html`<button class="primary">${action}</button>`}
${Object.entries(others).map(([name, give]) => html`<button type="button" @click=${(event: Event) => answer(event, give)}>${name}</button>`)}</p>
</form>`
  })
  return isAccepted
}
