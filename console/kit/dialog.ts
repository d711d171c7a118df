import { createForm, type FormOptions, unsentChanges } from './form.ts'
import { type Content, html, nothing, render } from './html.ts'
import { t } from './language.ts'

export interface Dialog {
  close(): void
  /** Closes the dialog, unless the operator wants to keep what would be lost. */
  leave(): Promise<void>
  update(): void
}

/**
 * A modal dialog. It closes at the latest when `signal` aborts, and the focus returns to its previous place. `lost`
 * says what Escape would lose besides form changes, and the operator is asked first.
 */
export function openDialog(
  title: string,
  signal: AbortSignal,
  content: (dialog: Dialog) => () => Content,
  { wide = false, onClose = () => {}, lost = () => '' }: { wide?: boolean; onClose?: () => void; lost?: () => string } = {},
): void {
  const element = document.createElement('dialog')
  element.ariaLabel = title
  element.classList.toggle('wide', wide)
  const losses = () => lost() || (unsentChanges(element) > 0 ? t`What you entered was not sent.` : '')
  const dialog = {
    close: () => element.close(),
    leave: async () => {
      const question = { title: t`Close without sending?`, text: [losses()], action: t`Close`, danger: true }
      if (losses() === '' || (await confirmAction(question, signal))) element.close()
    },
    update: () => queueMicrotask(() => element.isConnected && show()),
  }
  const body = content(dialog)
  const show = () => render(html`<h3>${title}</h3>${body()}`, element)
  signal.addEventListener('abort', dialog.close)
  element.addEventListener('close', () => {
    signal.removeEventListener('abort', dialog.close)
    document.removeEventListener('keydown', onKey)
    element.remove()
    onClose()
  })
  // The buttons of a form are disabled while it is sent. Escape would then hide the outcome.
  const keepOpen = (event: Event) => {
    const isSending = element.querySelector('form button[type=submit]:disabled') !== null
    if (isSending || losses() !== '') event.preventDefault()
    if (!isSending && losses() !== '') void dialog.leave()
  }
  // A file input has a `cancel` event, too.
  element.addEventListener('cancel', (event) => event.target === element && keepOpen(event))
  // Chromium closes a dialog at the second Escape even if `cancel` was prevented. The focus may be outside the dialog.
  const onKey = (event: KeyboardEvent) => {
    const isTop = [...document.querySelectorAll('dialog[open]')].at(-1) === element
    if (event.key === 'Escape' && isTop && !event.defaultPrevented) keepOpen(event)
  }
  document.addEventListener('keydown', onKey)
  document.body.append(element)
  show()
  element.showModal()
}

export interface Question {
  title: string
  text: readonly string[]
  /** The text of the button that confirms. */
  action: string
  danger?: boolean
}

/** Asks before an action. Escape and "Cancel", which has the focus, mean no. */
export function confirmAction({ title, text, action, danger = false }: Question, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    let isConfirmed = false
    const content = ({ close }: Dialog) => {
      const confirm = () => {
        isConfirmed = true
        close()
      }
      return () => html`${text.map((paragraph) => html`<p>${paragraph}</p>`)}
        <div class="actions">
          <button type="button" class=${danger ? 'danger' : 'primary'} @click=${confirm}>${action}</button>
          <button type="button" autofocus @click=${close}>Cancel</button>
        </div>`
    }
    openDialog(title, signal, content, { onClose: () => resolve(isConfirmed) })
  })
}

interface FormDialog extends Omit<FormOptions, 'edits' | 'onSubmit'> {
  title: string
  signal: AbortSignal
  onSubmit: (data: FormData, form: HTMLFormElement) => Promise<unknown>
  wide?: boolean
  onClose?: () => void
}

/**
 * Asks with a form, and closes after the form was sent. Escape and "Cancel" close it, except while it is being sent.
 */
export function openFormDialog(
  { title, signal, onSubmit, actions = () => nothing, wide = false, onClose = () => {}, ...options }: FormDialog,
  fields: (dialog: Dialog) => () => Content,
): void {
  const content = (dialog: Dialog) => {
    const send = async (data: FormData, form: HTMLFormElement) => {
      await onSubmit(data, form)
      dialog.close()
    }
    const more = (isSending: boolean) =>
      html`${actions(isSending)}<button type="button" ?disabled=${isSending} @click=${dialog.close}>Cancel</button>`
    const form = createForm(dialog, { ...options, onSubmit: send, actions: more })
    const shown = fields(dialog)
    return () => form(shown())
  }
  openDialog(title, signal, content, { wide, onClose })
}
