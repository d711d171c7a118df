const KEY = 'shop.typed'

/** What was typed into the form of the order, until the order is placed, the customer signs out or the tab ends. */
export function readTyped(): Record<string, string> {
  return JSON.parse(sessionStorage.getItem(KEY) ?? '{}')
}

export function keepTyped(form: HTMLFormElement): void {
  const { password, ...fields } = Object.fromEntries(new FormData(form))
  sessionStorage.setItem(KEY, JSON.stringify({ ...readTyped(), ...fields }))
}

/** Fills in what was typed before the page was left or the form drawn again. */
export function fillInTyped(form: HTMLFormElement): void {
  for (const [name, value] of Object.entries(readTyped())) {
    const field = form.elements.namedItem(name)
    if (field instanceof HTMLInputElement || field instanceof HTMLSelectElement) field.value = value
  }
}

export const forgetTyped = () => sessionStorage.removeItem(KEY)
