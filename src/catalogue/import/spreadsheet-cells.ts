import { InvalidLine } from './imported-product.ts'

/** The text that a spreadsheet writes if it could not calculate or show a value. */
const FAULT = /^(?:#(?:NAME\?|REF!|VALUE!|N\/A|DIV\/0!|NUM!|NULL!|SPILL!|CALC!)|#{4,}|Err:\d{3})$/
/** A long number, such as a barcode, as Excel shortens it in a narrow column. The last digits are lost. */
const SHORTENED = /^\d(?:[.,]\d+)?E[+-]\d{2,}$/

/** Throws InvalidLine if a spreadsheet has lost the value of a cell. */
export function assertNotLost(column: string, text: string): void {
  if (FAULT.test(text.trim())) throw new InvalidLine(`${column} is ${text.trim()}: the spreadsheet could not calculate or show this cell`)
}

/** Throws InvalidLine if a spreadsheet has shortened an identifier that looks like a number. */
export function assertNotShortened(column: string, text: string): void {
  if (SHORTENED.test(text.trim()))
    throw new InvalidLine(
      `${column} is ${text.trim()}: the spreadsheet has shortened a number; format the column as text and enter it again`,
    )
}

const PLAIN = /^\d+(?:\.\d+)?$/
const DECIMAL_COMMA = /^(\d+),(\d+)$/
/** A single separator before three digits is ambiguous: thousands or thousandths. */
const AMBIGUOUS = /^[1-9]\d{0,2}[.,]\d{3}$/
const GROUPED = /^\d{1,3}(?:([.,'’ ])\d{3})(?:\1\d{3})*(?:([.,])(\d+))?$/

/**
 * A number as people and spreadsheets write it (`12.50`, `12,50`, `1.299,00`, `1 299.00`, `1'299`), converted to a
 * decimal point without thousands separators. If commas separate the file's columns, `1.299` has three decimals;
 * otherwise it throws InvalidLine, and `1,299` always does. Null if it is not such a number.
 */
export function readDecimal(column: string, written: string, delimiter: string): string | null {
  const text = written.replace(/[\u00a0\u2009\u202f]/g, ' ').trim()
  if (AMBIGUOUS.test(text) && !(delimiter === ',' && text.includes('.'))) {
    const [whole = '', rest = ''] = text.split(/[.,]/)
    throw new InvalidLine(
      `${column} is ${text}, which can mean ${whole}${rest} or ${whole} and a fraction: write ${whole}${rest}.00 or ${whole}.${rest.slice(0, 2)}`,
    )
  }
  if (PLAIN.test(text)) return text
  const [, whole, decimals] = DECIMAL_COMMA.exec(text) ?? []
  if (whole !== undefined) return `${whole}.${decimals}`
  const [, separator, point, fraction] = GROUPED.exec(text) ?? []
  if (separator === undefined || separator === point) return null
  const digits = (point === undefined ? text : text.slice(0, text.lastIndexOf(point))).replace(/\D/g, '')
  return fraction === undefined ? digits : `${digits}.${fraction}`
}
