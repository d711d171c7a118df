/** A node of an OpenAPI document. */
type Node = Record<string, unknown>
type Operations = Record<string, Record<string, { responses?: Record<string, Node> }>>

/** Moves refusals that several operations have in common to `components.responses`, named by their codes. */
export function shareResponses(document: Node): Node {
  const operations = Object.values(document.paths as Operations).flatMap((item) => Object.values(item))
  const uses = new Map<string, Node[]>()
  for (const { responses = {} } of operations)
    for (const response of Object.values(responses)) {
      const name = nameOf(response)
      if (name !== null) uses.set(name, [...(uses.get(name) ?? []), response])
    }
  const shared = [...uses].flatMap(([name, [first = {}, ...others]]) =>
    others.length > 0 && others.every(isSameAs(first)) ? [[name, first] as const] : [],
  )
  const names = new Set(shared.map(([name]) => name))
  for (const { responses = {} } of operations)
    for (const [status, response] of Object.entries(responses)) {
      const name = nameOf(response)
      if (name !== null && names.has(name)) responses[status] = { $ref: `#/components/responses/${name}` }
    }
  const sorted = shared.toSorted(([a], [b]) => (a < b ? -1 : 1))
  return { ...document, components: { ...(document.components as Node), responses: Object.fromEntries(sorted) } }
}

const isSameAs = (one: Node) => (other: Node) => JSON.stringify(one) === JSON.stringify(other)

/** `UnauthenticatedOrInvalidToken` for a problem with these codes, null for any other response. */
function nameOf({ description, content }: Node): string | null {
  if (content === undefined || !('application/problem+json' in (content as Node))) return null
  const codes = [...String(description).matchAll(/`(\w+)`:/g)].map(([, code = '']) => code)
  const words = codes.map((code) => code.replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase()))
  return words.length === 0 ? null : words.join('Or')
}
