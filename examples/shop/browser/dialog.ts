import { html, nothing, render, type TemplateResult } from 'lit-html'
import { explain } from './problems.ts'
import { t } from './session.ts'

export interface Dialog {
  close(): void
  /** Renders the content again. */
  update(): void
}

/** Opens a modal dialog. Resolves when it is closed. */
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
  // In a dialog without fields the first key that is pressed changes nothing.
  if (element.querySelector('input') === null) (element.querySelector('#close') as HTMLElement).autofocus = true
  element.showModal()
  await new Promise((resolve) => element.addEventListener('close', resolve, { once: true }))
  element.remove()
}

/** The place where a form or dialog shows a refusal or a success. */
export const alerts = html`<p role="status"></p><p class="error" role="alert"></p>`

/** The shop itself refuses, for the reason that the message gives to the customer. */
export class Refusal extends Error {}

/**
 * Does the work of a button or a form, which cannot be pressed again meanwhile. Shows what the work answers, or why
 * it was refused, in the `alerts` nearest to it. Answers whether it was done.
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
  }
}

export interface Question {
  text?: readonly string[]
  label?: string
  /** Attributes of the input. Absent: there is none. */
  input?: { type: string; autocomplete: string; minLength?: number; maxLength: number }
  action?: string
  send?: (text: string) => Promise<unknown>
  /** Further ways to answer, by the texts of their buttons. */
  others?: Readonly<Record<string, () => Promise<unknown>>>
  explain?: (error: unknown) => string
}

/** Asks in a dialog, which stays open while an answer is refused. Answers whether one was accepted. */
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
