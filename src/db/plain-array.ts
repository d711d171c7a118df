/**
 * An array for PostgreSQL of values that need no quotes in it: ids and numbers. The driver would quote and escape each of them, and
 * PostgreSQL undo that.
 */
export function plainArray(values: readonly (string | number)[]): string {
  return `{${values.join(',')}}`
}
