/** The element with this id. */
export const byId = (id) => document.getElementById(id)

/** Makes an element. Children are elements or texts: no text of the store is ever read as HTML. */
export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties)
  made.append(...children)
  return made
}

// ISO 4217. Intl has what is customary in shops instead, such as no decimals for HUF, and would show 100 times the price.
const DIGITS = {
  ...{ BIF: 0, CLP: 0, DJF: 0, GNF: 0, ISK: 0, JPY: 0, KMF: 0, KRW: 0, PYG: 0, RWF: 0, UGX: 0, VND: 0, VUV: 0, XAF: 0, XOF: 0, XPF: 0 },
  ...{ BHD: 3, IQD: 3, JOD: 3, KWD: 3, LYD: 3, OMR: 3, TND: 3 },
}

/** An amount in minor units as people of this browser's language write it. */
export function formatMoney({ amount, currency }) {
  const digits = DIGITS[currency] ?? 2
  const settings = { style: 'currency', currency, minimumFractionDigits: digits, maximumFractionDigits: digits }
  return new Intl.NumberFormat(navigator.language, settings).format(amount / 10 ** digits)
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
