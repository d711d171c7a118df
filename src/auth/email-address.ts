import { domainToASCII, domainToUnicode } from 'node:url'
import { invalidBody } from '../http/problem.ts'

/** RFC 5321 §4.5.3.1.3 allows paths of 256 octets, including two angle brackets. */
export const EMAIL_MAX_LENGTH = 254

/** A plain mailbox: no display name, list, comment, quoted part, space or control character. */
export const EMAIL_PATTERN =
  '^[^\\s\\x00-\\x1f\\x7f-\\x9f@<>(),;:\\\\"\\[\\]]+@[^\\s\\x00-\\x1f\\x7f-\\x9f@<>(),;:\\\\"\\[\\].]+(\\.[^\\s\\x00-\\x1f\\x7f-\\x9f@<>(),;:\\\\"\\[\\].]+)+$'

const PATTERN = new RegExp(EMAIL_PATTERN, 'u')
// Controls, invisible format characters (direction marks, zero-width spaces), private use, lone surrogates, unassigned.
const INVISIBLE = /\p{C}/u

// Letters, digits and hyphens (RFC 5321 §4.1.2 with RFC 1034 §3.5). A domain whose last label is a number is an IP
// address.
const DOMAIN = /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+(?!\d+$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/
// The allowed ASCII characters of a typed domain; IDNA checks the others.
const TYPED_DOMAIN = /^[a-z0-9.\-\u0080-\u{10ffff}]+$/u

/** The form to store and compare addresses: NFC, lower case, and an ASCII domain (IDNA, RFC 5891) if it has one. */
export function canonicalEmail(address: string): string {
  const email = address.normalize('NFC').toLowerCase().normalize('NFC')
  const at = email.lastIndexOf('@')
  const domain = email.slice(at + 1)
  // `domainToASCII` parses URL hosts and turns `0x7f.1` into `127.0.0.1`, so ASCII domains skip it.
  const ascii = at === -1 || isAscii(domain) ? '' : domainToASCII(domain)
  return ascii === '' ? email : `${email.slice(0, at + 1)}${ascii}`
}

/**
 * The canonical form of an address for mail. Throws `invalid_body`. Checks the canonical form too: NFC turns some
 * characters into others, such as the Greek question mark into a semicolon, and lower case can be longer.
 */
export function parseEmail(address: string): string {
  const email = canonicalEmail(address)
  const isPlain = PATTERN.test(email) && !INVISIBLE.test(address) && !INVISIBLE.test(email) && hasMailDomain(address, email)
  if (isPlain && Buffer.byteLength(email) <= EMAIL_MAX_LENGTH) return email
  throw invalidBody('#/email', `must be one plain address of at most ${EMAIL_MAX_LENGTH} bytes`, 'The e-mail address is not acceptable.')
}

function hasMailDomain(typed: string, canonical: string): boolean {
  const domain = domainOf(canonical)
  // No name has an ASCII form that keeps this prefix.
  const isEncoded = domainToUnicode(domain)
    .split('.')
    .some((label) => label.startsWith('xn--'))
  return TYPED_DOMAIN.test(domainOf(typed).toLowerCase()) && DOMAIN.test(domain) && !isEncoded
}

function domainOf(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1)
}

function isAscii(text: string): boolean {
  return Buffer.byteLength(text) === text.length
}
