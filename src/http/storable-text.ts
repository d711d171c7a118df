export const UNSTORABLE = 'must be well-formed Unicode without NUL'

/** PostgreSQL stores no NUL, and UTF-8 no lone surrogates. */
export function isStorable(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed() && !value.includes('\0')
  return typeof value !== 'object' || value === null || Object.values(value).every(isStorable)
}

export function findUnstorableText(value: unknown, path: readonly string[] = []): (readonly string[])[] {
  if (typeof value === 'string') return isStorable(value) ? [] : [path]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, child]) => findUnstorableText(child, [...path, key]))
}
