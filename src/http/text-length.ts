/** TypeBox counts grapheme clusters, of which one can be a megabyte. This counts code points. For the check only. */
export function countCodePoints<T>(schema: T): T {
  return convert(schema) as T
}

function convert(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(convert)
  if (typeof node !== 'object' || node === null) return node
  const { minLength, maxLength, ...rest } = node as Record<string, unknown>
  const converted = Object.fromEntries(Object.entries(rest).map(([name, child]) => [name, convert(child)]))
  // A property of that name is a schema, not a number.
  const min = typeof minLength === 'number' ? minLength : 0
  const max = typeof maxLength === 'number' ? maxLength : Number.POSITIVE_INFINITY
  if (typeof minLength === 'object') converted.minLength = convert(minLength)
  if (typeof maxLength === 'object') converted.maxLength = convert(maxLength)
  const hasLength = min > 0 || max < Number.POSITIVE_INFINITY
  const check = (value: unknown) => typeof value !== 'string' || isWithin(value, min, max)
  // The rules of a refined type are not enumerable. A text is measured before they read it.
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
