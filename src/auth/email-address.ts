/** RFC 5321 §4.5.3.1.3 allows a path of 256 octets, of which two are its angle brackets. */
export const EMAIL_MAX_LENGTH = 254

/** One plain mailbox: no display name, list, comment, quoted part, space or control character. */
export const EMAIL_PATTERN =
  '^[^\\s\\x00-\\x1f\\x7f-\\x9f@<>(),;:\\\\"\\[\\]]+@[^\\s\\x00-\\x1f\\x7f-\\x9f@<>(),;:\\\\"\\[\\].]+(\\.[^\\s\\x00-\\x1f\\x7f-\\x9f@<>(),;:\\\\"\\[\\].]+)+$'

/** The one form an address is stored and compared in: NFC, lower case. */
export function canonicalEmail(address: string): string {
  return address.normalize('NFC').toLowerCase().normalize('NFC')
}
