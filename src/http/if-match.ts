import { AppError } from '../errors.ts'

// `*`, or a list of entity tags (RFC 9110 §13.1.1). A bare version without quotes is accepted too.
const LIST = /^[\s,]*(?:W\/)?(?:"[^"]*"|[\w.-]+)(?:\s*,[\s,]*(?:W\/)?(?:"[^"]*"|[\w.-]+))*[\s,]*$/

/** Entity tags without quotes. Null accepts any state. */
export type IfMatch = ReadonlySet<string> | null

export interface IfMatchOptions {
  /** The tag counts with an encoding's suffix, and as a weak one of a cache that compresses. */
  isSentCompressed?: boolean
}

/** Leaves out weak tags, which match nothing (RFC 9110 §8.8.3.2). Throws `invalid_header`. */
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
