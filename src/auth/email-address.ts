import { AppError } from '../errors.ts'

/** RFC 5321 §4.5.3.1.3 allows a path of 256 octets, of which two are its angle brackets. */
export const EMAIL_MAX_LENGTH = 254

/** One plain mailbox: no display name, list, comment, quoted part, space or control character. */
export const EMAIL_PATTERN =
  '^[^\\s\\x00-\\x1f\\x7f-\\x9f@<>(),;:\\\\"\\[\\]]+@[^\\s\\x00-\\x1f\\x7f-\\x9f@<>(),;:\\\\"\\[\\].]+(\\.[^\\s\\x00-\\x1f\\x7f-\\x9f@<>(),;:\\\\"\\[\\].]+)+$'

const PATTERN = new RegExp(EMAIL_PATTERN, 'u')
// Controls, invisible format characters (direction marks, zero-width spaces), private use, lone surrogates, unassigned.
const INVISIBLE = /\p{C}/u

/** The one form an address is stored and compared in: NFC, lower case. */
export function canonicalEmail(address: string): string {
  return address.normalize('NFC').toLowerCase().normalize('NFC')
}

/**
 * The canonical form of an address that mail is to be sent to. Throws `invalid_body`. The form itself is checked: NFC turns some
 * characters into others, such as the Greek question mark into a semicolon, and lower case can be longer than upper case.
 */
export function parseEmail(address: string): string {
  const email = canonicalEmail(address)
  if (PATTERN.test(email) && !INVISIBLE.test(email) && Buffer.byteLength(email) <= EMAIL_MAX_LENGTH) return email
  throw new AppError('invalid_body', 'The e-mail address is not acceptable.', {
    errors: [{ pointer: '#/email', detail: `must be one plain address of at most ${EMAIL_MAX_LENGTH} bytes` }],
  })
}
