// Formulas in CSV, for the exports and the import of the catalogue. Browsers run this file, too, so it imports nothing.

/** What a spreadsheet runs, also in its full width and after spaces that no one sees. */
const FORMULA = /^(?:[\t\r]|[\s\p{Cc}\p{Cf}]*[=+\-@＝＋－＠])/u
const GUARDED = /^'+/
/** Within a cell, behind what separates cells elsewhere: a file with commas that is read with semicolons or tabs is cut there. */
const INNER = /([;\t\r\n])('*)(?=[^\S\t\r\n]*[=+\-@＝＋－＠])/gu

/** Whether a cell is a formula, or is one behind apostrophes. */
function isFormula(cell: string): boolean {
  return FORMULA.test(cell.replace(GUARDED, ''))
}

/**
 * A cell as CSV has it so that `withoutGuard` returns it: with an apostrophe in front of a formula if the file is `forSpreadsheets`
 * (https://owasp.org/www-community/attacks/CSV_Injection), and of an apostrophe that would be taken for one.
 */
export function withGuard(cell: string, forSpreadsheets: boolean): string {
  const inner = cell.replaceAll(INNER, (text, separator, marks) => (forSpreadsheets || marks !== '' ? `${separator}'${marks}` : text))
  return isFormula(cell) && (forSpreadsheets || cell.startsWith("'")) ? `'${inner}` : inner
}

/** The cell that `withGuard` has written. */
export function withoutGuard(cell: string): string {
  const inner = cell.replaceAll(INNER, (_, separator, marks: string) => `${separator}${marks.slice(1)}`)
  return inner.startsWith("'") && isFormula(inner) ? inner.slice(1) : inner
}
