import { AppError } from '../errors.ts'

// RFC 9110 §13.1.1: `*`, or a list of entity tags. §5.6.1.2: empty elements are ignored. A bare version without its quotes is accepted, too.
const LIST = /^[\s,]*(?:W\/)?(?:"[^"]*"|[\w.-]+)(?:\s*,[\s,]*(?:W\/)?(?:"[^"]*"|[\w.-]+))*[\s,]*$/

/** The entity tags that a caller accepts, without their quotes; null when any state will do. */
export type IfMatch = ReadonlySet<string> | null

export interface IfMatchOptions {
  /** The resource is also sent compressed: its tag counts with a suffix for the encoding, and where a cache that compresses made it weak. */
  isSentCompressed?: boolean
}

/** Reads an `If-Match` header. Weak tags are left out: they match nothing (RFC 9110 §8.8.3.2). Throws `invalid_header`. */
export function readIfMatch(header: string | undefined, { isSentCompressed = false }: IfMatchOptions = {}): IfMatch {
  if (header === undefined || header.trim() === '*') return null
  const text = header.trim()
  if (!LIST.test(text)) {
    throw new AppError('invalid_header', 'If-Match must be * or a list of versions such as "3".', {
      errors: [{ parameter: 'If-Match', detail: 'is not a list of entity tags' }],
    })
  }
  // A comma between quotes is part of a tag.
  const tags = text.matchAll(/(?<weak>W\/)?(?:"(?<quoted>[^"]*)"|(?<bare>[\w.-]+))/g).flatMap(({ groups }) => {
    const tag = groups?.quoted ?? groups?.bare ?? ''
    if (isSentCompressed) return [tag, tag.replace(/-(gzip|gz|br)$/, '')]
    return groups?.weak === undefined ? [tag] : []
  })
  return new Set(tags)
}
