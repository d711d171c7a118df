/**
 * Whether a call may leave its body out, which then counts as `{}`: where the schema has `default: {}`. Never where no member means all
 * that there is, such as the open lines of an order: a body that got lost on its way would cancel them.
 */
export function isBodyOptional(schema: unknown): boolean {
  return 'default' in (schema as object)
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
