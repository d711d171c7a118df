/**
 * Replaces length keywords by checks that count code points. TypeBox counts grapheme clusters, and one cluster can be a
 * megabyte. The result is for validation only.
 */
export function countCodePoints<T>(schema: T): T {
  return convert(schema) as T
}

function convert(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(convert)
  if (typeof node !== 'object' || node === null) return node
  const { minLength, maxLength, ...rest } = node as Record<string, unknown>
  const converted = Object.fromEntries(Object.entries(rest).map(([name, child]) => [name, convert(child)]))
  // `minLength` can also be the name of a property, whose value is a schema instead of a number.
  const min = typeof minLength === 'number' ? minLength : 0
  const max = typeof maxLength === 'number' ? maxLength : Number.POSITIVE_INFINITY
  if (typeof minLength === 'object') converted.minLength = convert(minLength)
  if (typeof maxLength === 'object') converted.maxLength = convert(maxLength)
  const hasLength = min > 0 || max < Number.POSITIVE_INFINITY
  const check = (value: unknown) => typeof value !== 'string' || isWithin(value, min, max)
  // A refined type's rules are not enumerable, so they are copied here. The length is checked before the rules read the
  // text.
  const rules = [...(hasLength ? [{ check, error: () => range(min, max) }] : []), ...((node as Record<string, unknown[]>)['~refine'] ?? [])]
  if (rules.length > 0) converted['~refine'] = rules
  return converted
}

function isWithin(text: string, min: number, max: number): boolean {
  // A code point is one or two units of `length`, so most texts need no exact count.
  if (text.length < min || text.length > 2 * max) return false
  if (text.length <= max && text.length >= 2 * min) return true
  let count = 0
  for (const _ of text) count++
  return count >= min && count <= max
}

function range(min: number, max: number): string {
  if (max === Number.POSITIVE_INFINITY) return `must have at least ${min} characters`
  return min === 0 ? `must have at most ${max} characters` : `must have ${min} to ${max} characters`
}
