// Browsers run this file too, so it imports nothing.

/** What a spreadsheet runs, also in its full width and after invisible spaces. */
const FORMULA = /^(?:[\t\r]|[\s\p{Cc}\p{Cf}]*[=+\-@＝＋－＠])/u
const GUARDED = /^'+/
/** A separator inside a cell. If a comma-separated file is read with semicolons or tabs, the cell is split there. */
const INNER = /([;\t\r\n])('*)(?=[^\S\t\r\n]*[=+\-@＝＋－＠])/gu

function isFormula(cell: string): boolean {
  return FORMULA.test(cell.replace(GUARDED, ''))
}

/**
 * Guards a cell. In files `forSpreadsheets`, an apostrophe precedes formulas, and apostrophes that look like a guard.
 * https://owasp.org/www-community/attacks/CSV_Injection
 */
export function withGuard(cell: string, forSpreadsheets: boolean): string {
  const inner = cell.replaceAll(INNER, (text, separator, marks) => (forSpreadsheets || marks !== '' ? `${separator}'${marks}` : text))
  return isFormula(cell) && (forSpreadsheets || cell.startsWith("'")) ? `'${inner}` : inner
}

export function withoutGuard(cell: string): string {
  const inner = cell.replaceAll(INNER, (_, separator, marks: string) => `${separator}${marks.slice(1)}`)
  return inner.startsWith("'") && isFormula(inner) ? inner.slice(1) : inner
}
