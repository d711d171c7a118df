import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { deriveKey } from '../auth/encryption.ts'
import { canonicalJson } from '../encoding.ts'

/** The time from a preview to its commit. */
export const COMMIT_MS = 600_000
const FORM = /^(\d{1,12})\.([\w-]{16})\.([\w-]{43})$/

/** A previewed change. */
export interface Previewed {
  keyId: string
  operation: string
  args: unknown
  /** The target's state, and the outcome of the change. */
  state: string
}

/**
 * Makes and checks the hashes of previews. A hash has the expiry in Unix seconds, a hash of the state, and a tag over
 * these and the change. None of it is stored. See docs/decisions/mcp.md.
 */
export interface CommitHashes {
  make(previewed: Previewed, now: Date): { hash: string; expiresAt: Date }
  /** Whether the state is still the previewed one. Null for an expired hash, and for one of another change or key. */
  check(hash: string, change: Previewed, now: Date): { isCurrent: boolean } | null
}

export function createCommitHashes(secret: string): CommitHashes {
  const key = deriveKey(secret, 'mcp commit')
  const nameOf = (state: string) => createHash('sha256').update(state).digest('base64url').slice(0, 16)
  const tagOf = ({ keyId, operation, args }: Previewed, ends: string, state: string) =>
    createHmac('sha256', key)
      .update(canonicalJson([keyId, operation, args, ends, state], { keepsNull: true }))
      .digest('base64url')

  return {
    make(previewed, now) {
      const expiresAt = new Date(Math.floor((now.getTime() + COMMIT_MS) / 1_000) * 1_000)
      const [ends, state] = [`${expiresAt.getTime() / 1_000}`, nameOf(previewed.state)]
      return { hash: `${ends}.${state}.${tagOf(previewed, ends, state)}`, expiresAt }
    },
    check(hash, change, now) {
      const [, ends = '', state = '', tag = ''] = FORM.exec(hash) ?? []
      const isOwn = tag !== '' && timingSafeEqual(Buffer.from(tag), Buffer.from(tagOf(change, ends, state)))
      if (!isOwn || Number(ends) * 1_000 <= now.getTime()) return null
      return { isCurrent: state === nameOf(change.state) }
    },
  }
}
