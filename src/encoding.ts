/**
 * RFC 8785: one text for each value, whatever the order of its members. A null member equals an absent one: what an
 * earlier release wrote lacks later members. `keepsNull` tells them apart.
 */
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

/** Whether TextDecoder knows an encoding by this name, such as `windows-1252`. */
export function isEncoding(label: string): boolean {
  try {
    return new TextDecoder(label).encoding !== ''
  } catch (error) {
    if (error instanceof RangeError) return false
    throw error
  }
}
