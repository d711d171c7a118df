/** RFC 8785. A null member equals an absent one, as in texts of earlier releases, unless `keepsNull`. */
export function canonicalJson(value: unknown, options: { keepsNull?: boolean } = {}): string {
  if (Array.isArray(value)) return `[${value.map((each) => canonicalJson(each, options)).join()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value ?? null)
  const members = value as Record<string, unknown>
  let text = ''
  for (const name of Object.keys(members).sort()) {
    const member = members[name]
    if (member !== undefined && (member !== null || options.keepsNull === true))
      text += `${text === '' ? '' : ','}${JSON.stringify(name)}:${canonicalJson(member, options)}`
  }
  return `{${text}}`
}

export function isEncoding(label: string): boolean {
  try {
    return new TextDecoder(label).encoding !== ''
  } catch (error) {
    if (error instanceof RangeError) return false
    throw error
  }
}
