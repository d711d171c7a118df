const KEY = 'shop.typed'

/**
 * The typed values of the order form. They stay until the order is placed, the customer signs out or the tab is closed.
 */
export function readTyped(): Record<string, string> {
  return JSON.parse(sessionStorage.getItem(KEY) ?? '{}')
}

export function keepTyped(form: HTMLFormElement): void {
  const { password, ...fields } = Object.fromEntries(new FormData(form))
  sessionStorage.setItem(KEY, JSON.stringify({ ...readTyped(), ...fields }))
}

/** Fills in the values that were typed before the customer left the page or the form was rendered again. */
export function fillInTyped(form: HTMLFormElement): void {
  for (const [name, value] of Object.entries(readTyped())) {
    const field = form.elements.namedItem(name)
    if (field instanceof HTMLInputElement || field instanceof HTMLSelectElement) field.value = value
  }
}

export const forgetTyped = () => sessionStorage.removeItem(KEY)
