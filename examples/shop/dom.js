/** The element with this id. */
export const byId = (id) => document.getElementById(id)

/** Makes an element. Children are elements or texts: no text of the store is ever read as HTML. */
export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties)
  made.append(...children)
  return made
}

/** Runs `work` while the button cannot be pressed again. */
export async function whileDisabled(button, work) {
  button.disabled = true
  try {
    return await work()
  } finally {
    button.disabled = false
  }
}
