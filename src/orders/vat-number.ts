import { Type } from 'typebox'
import { isCountry } from './postal-address.ts'

/** Forms of the part after the two-letter country code. */
const DIGITS_8 = { form: /^\d{8}$/, example: '12345678' }
const DIGITS_9 = { form: /^\d{9}$/, example: '123456789' }
const DIGITS_10 = { form: /^\d{10}$/, example: '1234567890' }
const DIGITS_11 = { form: /^\d{11}$/, example: '12345678901' }
const BRITISH = { form: /^(\d{9}|\d{12}|(GD|HA)\d{3})$/, example: '123456789' }
// EU numbers: ec.europa.eu/taxation_customs/vies/#/faq, question 11. Greece has the code EL, and Northern Ireland XI.
const FORMS: ReadonlyMap<string, { form: RegExp; example: string }> = new Map(
  Object.entries({
    AT: { form: /^U\d{8}$/, example: 'U12345678' },
    BE: { form: /^[01]\d{9}$/, example: '0123456789' },
    BG: { form: /^\d{9,10}$/, example: '123456789' },
    CH: { form: /^E\d{9}(MWST|TVA|IVA)?$/, example: 'E123456789MWST' },
    CY: { form: /^\d{8}[A-Z]$/, example: '12345678X' },
    CZ: { form: /^\d{8,10}$/, example: '12345678' },
    DE: DIGITS_9,
    DK: DIGITS_8,
    EE: DIGITS_9,
    EL: DIGITS_9,
    ES: { form: /^(?=.*[A-Z])[A-Z\d]\d{7}[A-Z\d]$/, example: 'A12345678' },
    FI: DIGITS_8,
    FR: { form: /^[A-Z\d]{2}\d{9}$/, example: '12123456789' },
    GB: BRITISH,
    HR: DIGITS_11,
    HU: DIGITS_8,
    IE: { form: /^(\d[A-Z\d+*]\d{5}[A-Z]|\d{7}[A-Z]{2})$/, example: '1234567AB' },
    IT: DIGITS_11,
    LT: { form: /^(\d{9}|\d{12})$/, example: '123456789' },
    LU: DIGITS_8,
    LV: DIGITS_11,
    MT: DIGITS_8,
    NL: { form: /^\d{9}B\d{2}$/, example: '123456789B01' },
    NO: { form: /^\d{9}(MVA)?$/, example: '123456789MVA' },
    PL: DIGITS_10,
    PT: DIGITS_9,
    RO: { form: /^\d{2,10}$/, example: '1234567890' },
    SE: { form: /^\d{12}$/, example: '123456789001' },
    SI: DIGITS_8,
    SK: DIGITS_10,
    XI: BRITISH,
  }),
)
const OTHER = /^(?=.*\d)[A-Z\d]{2,18}$/

/** `number` has the form `identifier` of `x-input`. The check asks no registry. */
export function findVatNumberFault(number: string): string | null {
  const [country, rest] = [number.slice(0, 2), number.slice(2)]
  if (country === 'GR') return 'must begin with EL, which stands for Greece in VAT numbers'
  const known = FORMS.get(country)
  if (known !== undefined) return known.form.test(rest) ? null : `must be written like ${country}${known.example}`
  if (!isCountry(country)) return 'must begin with the two letters of its country, as in DE123456789'
  return OTHER.test(rest) ? null : `must be ${country} and 2 to 18 letters and digits`
}

export const VatNumberInput = Type.Refine(
  Type.String({
    minLength: 1,
    maxLength: 40,
    'x-input': 'identifier',
    description:
      'Begins with the two letters of its country, such as DE123456789. Blanks, dots and dashes are dropped. The store checks its form, but not whether it exists.',
  }),
  (number) => findVatNumberFault(number) === null,
  (number) => findVatNumberFault(number) ?? '',
)
