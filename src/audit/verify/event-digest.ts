import { hash } from 'node:crypto'
import { canonicalJson } from '../../encoding.ts'

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
  return hash('sha256', canonicalJson(value), 'base64url').slice(0, 16)
}
