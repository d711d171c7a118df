import { actions, type Child, create } from './dom.ts'
import { type FormOptions, sendForm } from './form.ts'

export interface Question {
  title: string
  /** Paragraphs. */
  text: readonly string[]
  /** The word on the button that confirms. */
  action: string
}

/** Asks before something is done. Escape and “Cancel”, which has the focus, mean no. */
export function confirmAction({ title, text, action }: Question, signal: AbortSignal): Promise<boolean> {
  const confirm = create('button', { type: 'button', class: 'primary' }, action)
  const cancel = create('button', { type: 'button', autofocus: true }, 'Cancel')
  const paragraphs = text.map((paragraph) => create('p', {}, paragraph))
  const dialog = openDialog(title, signal, ...paragraphs, actions(confirm, cancel))
  confirm.addEventListener('click', () => dialog.close('confirmed'))
  cancel.addEventListener('click', () => dialog.close())
  return new Promise((resolve) => dialog.addEventListener('close', () => resolve(dialog.returnValue === 'confirmed')))
}

/** Asks with a form, and closes when it was sent. Escape and “Cancel” close it, but not while it is being sent. */
export function openFormDialog(
  { title, onSubmit, ...options }: Omit<FormOptions, 'actions'> & { title: string },
  ...children: Child[]
): void {
  const cancel = create('button', { type: 'button' }, 'Cancel')
  const send = async (data: FormData) => {
    await onSubmit(data)
    dialog.close()
  }
  const dialog = openDialog(title, options.signal, sendForm({ ...options, onSubmit: send, actions: [cancel] }, ...children))
  dialog.addEventListener('cancel', (event) => {
    if (cancel.disabled) event.preventDefault()
  })
  cancel.addEventListener('click', () => dialog.close())
}

/** A modal dialog. It leaves the page when it is closed, at the latest when `signal` aborts; then the focus returns to where it was. */
function openDialog(title: string, signal: AbortSignal, ...children: Child[]): HTMLDialogElement {
  const dialog = create('dialog', { ariaLabel: title }, create('h3', {}, title), ...children)
  const close = () => dialog.close()
  signal.addEventListener('abort', close)
  dialog.addEventListener('close', () => {
    signal.removeEventListener('abort', close)
    dialog.remove()
  })
  document.body.append(dialog)
  dialog.showModal()
  return dialog
}
