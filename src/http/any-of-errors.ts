/** An error of a schema, as TypeBox has it. */
export interface SchemaError {
  keyword: string
  schemaPath: string
  instancePath: string
  params: object
  message: string
}

/** The end of the path of a schema that is one of several which a value may have. */
const BRANCH = /\/anyOf\/\d+$/

/**
 * Drops errors that follow from others: a wrong object in a nullable value is not reported as "must be null". A value
 * of no allowed type gets one error for all types. Pure.
 */
export function withoutAnyOfNoise(errors: readonly SchemaError[]): SchemaError[] {
  return errors.flatMap((error): SchemaError[] => {
    if (error.keyword === 'anyOf') return errors.some((other) => isInside(other, error.schemaPath, error.instancePath)) ? [] : [error]
    if (!isOtherType(error)) return [error]
    const { instancePath } = error
    const anyOf = error.schemaPath.replace(BRANCH, '')
    const siblings = errors.filter((other) => isInside(other, anyOf, instancePath))
    const types = siblings.filter((other) => isOtherType(other) && other.instancePath === instancePath && !isNested(other, anyOf))
    if (types.length < siblings.length || types[0] !== error) return []
    return [{ ...error, message: `must be ${types.map(({ params }) => (params as { type?: string }).type).join(' or ')}` }]
  })
}

/** Whether the value has not even the type of one of the schemas that it may have. */
function isOtherType({ keyword, schemaPath }: SchemaError): boolean {
  return keyword === 'type' && BRANCH.test(schemaPath)
}

/** Whether the error is one of a schema in the list at `anyOf`, for the value at `instancePath` or inside of it. */
function isInside({ keyword, schemaPath, instancePath: path }: SchemaError, anyOf: string, instancePath: string): boolean {
  return keyword !== 'anyOf' && schemaPath.startsWith(`${anyOf}/anyOf/`) && (path === instancePath || path.startsWith(`${instancePath}/`))
}

function isNested({ schemaPath }: SchemaError, anyOf: string): boolean {
  return schemaPath.replace(BRANCH, '') !== anyOf
}
