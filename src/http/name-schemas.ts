/** A node of an OpenAPI document. */
type Node = Record<string, unknown>

const NAME = /^[A-Z][A-Za-z]*$/

/** Moves each schema with a name as `title` to `components.schemas`. Throws when two different schemas have one name. */
export function nameSchemas(document: Node): Node {
  const components = document.components as Node
  const schemas: Node = {}
  for (const [name, schema] of Object.entries(components.schemas as Node)) schemas[name] = hoist(schema, schemas)
  const paths = hoist(document.paths, schemas)
  const sorted = Object.entries(schemas).sort(([a], [b]) => (a < b ? -1 : 1))
  return { ...document, paths, components: { ...components, schemas: Object.fromEntries(sorted) } }
}

function hoist(node: unknown, schemas: Node): unknown {
  if (Array.isArray(node)) return node.map((child) => hoist(child, schemas))
  if (!isNode(node)) return node
  const copy: Node = {}
  for (const [key, child] of Object.entries(node)) {
    // These are for the store itself: how a text is read, and what a refusal says.
    if (key === 'x-input' || key === 'x-must') continue
    // An example is data, whatever its properties are called.
    copy[key] = key === 'example' || key === 'examples' ? child : hoist(key === 'schema' ? withoutDescription(child) : child, schemas)
  }
  // Generators of clients name no type where an enum has none.
  if (isEnumOfStrings(copy)) copy.type ??= 'string'
  return typeof copy.title === 'string' && NAME.test(copy.title) ? refer(copy.title, copy, schemas) : copy
}

function isEnumOfStrings({ enum: values }: Node): boolean {
  return Array.isArray(values) && values.every((value) => typeof value === 'string')
}

/** The schema of a whole body, which repeats the description of the body. */
function withoutDescription(schema: unknown): unknown {
  if (!isNode(schema) || typeof schema.title !== 'string') return schema
  const { description: _, ...rest } = schema
  return rest
}

function refer(name: string, { title: _, examples: __, ...schema }: Node, schemas: Node): Node {
  const known = schemas[name] as Node | undefined
  if (known !== undefined && !isSameType(known, schema)) throw new Error(`two schemas are named ${name}`)
  schemas[name] = { ...known, ...schema }
  return { $ref: `#/components/schemas/${name}` }
}

function isSameType({ description: _, ...one }: Node, { description: __, ...other }: Node): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null
}
