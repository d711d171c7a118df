import { hash } from 'node:crypto'
import { canonicalJson } from '../../encoding.ts'

export interface EventContent {
  fixed: object
  /** Members that are erased later, or that a row lacks. Compared where both sides have a value. */
  erasable: readonly unknown[]
}

export function digestContent({ fixed, erasable }: EventContent): { digest: string; erasable: string } {
  return { digest: digest(fixed), erasable: erasable.map((value) => (value == null ? '' : digest(value))).join('|') }
}

function digest(value: unknown): string {
  return hash('sha256', canonicalJson(value), 'base64url').slice(0, 16)
}
