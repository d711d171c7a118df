/** Allows unknown properties at every depth, and removes keywords that only requests need. */
export function openSchema<T>(schema: T): T {
  if (Array.isArray(schema)) return schema.map(openSchema) as T
  if (typeof schema !== 'object' || schema === null) return schema
  const { additionalProperties: _, 'x-input': __, 'x-must': ___, ...rest } = schema as Record<string, unknown>
  return Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, openSchema(value)])) as T
}
