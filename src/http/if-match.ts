import { AppError } from '../errors.ts'

// RFC 9110 §13.1.1: `*`, or a list of entity tags. A bare version without its quotes is taken for one, too.
const LIST = /^(?:W\/)?(?:"[^"]*"|[\w.-]+)(?:\s*,\s*(?:W\/)?(?:"[^"]*"|[\w.-]+))*$/

/**
 * The entity tags of an `If-Match` header, without their quotes; null when any version will do. Weak tags are left out: they match
 * nothing here (RFC 9110 §8.8.3.2). Throws `invalid_header`.
 */
export function readIfMatch(header: string | undefined): ReadonlySet<string> | null {
  if (header === undefined || header.trim() === '*') return null
  const text = header.trim()
  if (!LIST.test(text)) {
    throw new AppError('invalid_header', 'If-Match must be * or a list of versions such as "3".', {
      errors: [{ parameter: 'If-Match', detail: 'is not a list of entity tags' }],
    })
  }
  // A comma between quotes is part of a tag.
  const tags = text.matchAll(/(?<weak>W\/)?(?:"(?<quoted>[^"]*)"|(?<bare>[\w.-]+))/g)
  return new Set(tags.flatMap(({ groups }) => (groups?.weak === undefined ? [groups?.quoted ?? groups?.bare ?? ''] : [])))
}
