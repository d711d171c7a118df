import { element, whileDisabled } from './dom.js'

/**
 * Asks in a dialog of its own, with or without an input, and stays open while an answer is refused. `send` has the text of the input; `others` are
 * further ways to answer, by the texts of their buttons. Answers whether one was accepted.
 */
export async function ask(title, { text = [], label, input, action, send, others = {}, explain }) {
  const error = element('p', { className: 'error', role: 'alert' })
  const close = element('button', { type: 'button', autofocus: input === undefined }, 'Close')
  const buttons = Object.entries(others).map(([name, answer]) =>
    element('button', { type: 'button', onclick: ({ target }) => attempt(target, answer) }, name),
  )
  const form = element(
    'form',
    {},
    ...text.map((paragraph) => element('p', {}, paragraph)),
    ...(input === undefined ? [] : [element('label', {}, `${label} `, input)]),
    error,
    element('div', { className: 'actions' }, ...(action === undefined ? [] : [element('button', {}, action)]), ...buttons, close),
  )
  const dialog = element('dialog', { ariaLabel: title }, element('h2', {}, title), form)
  let isAccepted = false
  const attempt = (button, answer) =>
    whileDisabled(button, async () => {
      error.textContent = ''
      try {
        await answer(input?.value)
        isAccepted = true
        dialog.close()
      } catch (problem) {
        error.textContent = explain(problem)
      }
    })
  form.onsubmit = (event) => {
    event.preventDefault()
    attempt(event.submitter, send)
  }
  close.onclick = () => dialog.close()
  document.body.append(dialog)
  dialog.showModal()
  await new Promise((resolve) => dialog.addEventListener('close', resolve, { once: true }))
  dialog.remove()
  return isAccepted
}
