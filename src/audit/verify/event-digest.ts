import { hash } from 'node:crypto'

/** The content of an event, apart from its place in the topic. */
export interface EventContent {
  /** Equal wherever the event is. */
  fixed: object
  /** Members that are erased later, or that a row does not keep: compared where both sides have a value. */
  erasable: readonly unknown[]
}

/** Short texts that are compared instead of an event. `erasable`: one for each member, empty where it has no value. */
export function digestContent({ fixed, erasable }: EventContent): { digest: string; erasable: string } {
  return { digest: digest(fixed), erasable: erasable.map((value) => (value == null ? '' : digest(value))).join('|') }
}

function digest(value: unknown): string {
  return hash('sha256', canonical(value), 'base64url').slice(0, 16)
}

/** The value as JSON whose members are sorted. A null member equals an absent one: events of earlier releases lack later members. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value ?? null)
  const members = value as Record<string, unknown>
  let text = ''
  for (const name of Object.keys(members).sort()) {
    const member = members[name]
    if (member != null) text += `${text === '' ? '' : ','}${JSON.stringify(name)}:${canonical(member)}`
  }
  return `{${text}}`
}
