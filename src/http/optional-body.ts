/** Whether a call may leave its body out, which then counts as `{}`: where the schema is of an object that needs no member. */
export function isBodyOptional(schema: unknown): boolean {
  const { type, required = [], minProperties = 0 } = schema as { type?: string; required?: readonly string[]; minProperties?: number }
  return type === 'object' && required.length === 0 && minProperties === 0
}

interface DocumentOperation {
  requestBody?: { required?: boolean; content: Record<string, { schema?: unknown }> }
}

/** Says in the OpenAPI document which bodies are optional: its generator takes each for required. */
export function markOptionalBodies(paths: Readonly<Record<string, Record<string, DocumentOperation>>>): void {
  for (const { requestBody } of Object.values(paths).flatMap(Object.values<DocumentOperation>)) {
    if (requestBody !== undefined) requestBody.required = !Object.values(requestBody.content).every(({ schema }) => isBodyOptional(schema))
  }
}
