import { AppError } from '../errors.ts'
import { type IfMatch, readIfMatch } from '../http/if-match.ts'

/** The `If-Match` of a change of `what`. Throws `if_match_required` or `invalid_header`. */
export function requireIfMatch(header: string | undefined, what: string): IfMatch {
  if (header !== undefined) return readSentCompressed(header)
  throw new AppError('if_match_required', `Send the ${what}'s ETag as If-Match, so that no change by others is lost.`)
}

/** Throws `invalid_header`. */
export function readSentCompressed(header: string | undefined): IfMatch {
  return readIfMatch(header, { isSentCompressed: true })
}
