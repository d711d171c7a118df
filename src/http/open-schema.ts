/** A schema with room for unknown properties at every depth: of the API's own schemas, those that requests share with answers leave none. */
export function openSchema<T>(schema: T): T {
  if (Array.isArray(schema)) return schema.map(openSchema) as T
  if (typeof schema !== 'object' || schema === null) return schema
  const { additionalProperties: _, ...rest } = schema as Record<string, unknown>
  return Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, openSchema(value)])) as T
}
