import { randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

/** Documented for secret scanners in docs/inside/security.md. */
const KEY_PREFIX = 'storefront_key_'
export const KEY_PATTERN = '^storefront_key_[0-9a-f]{32}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$'

const KEY = new RegExp(KEY_PATTERN)
/** URLs may percent-encode any character. */
const PREFIX_IN_URL = /storefront(?:_|%5f)key(?:_|%5f)/i
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const ID_END = KEY_PREFIX.length + 32
const SECRET_BYTES = 32
const SECRET_LENGTH = 43
const CHECKSUM_LENGTH = 6

export interface KeyText {
  /** A UUID. */
  id: string
  secret: string
}

/** 256 random bits in base 62. No character ends a word, so a double click selects a whole key. */
export function newSecret(): string {
  return inBase62(BigInt(`0x${randomBytes(SECRET_BYTES).toString('hex')}`), SECRET_LENGTH)
}

/** `storefront_key_<id>_<secret>_<checksum>`. */
export function formatKey({ id, secret }: KeyText): string {
  const text = `${KEY_PREFIX}${id.replaceAll('-', '')}_${secret}`
  return `${text}_${checksumOf(text)}`
}

/**
 * Returns null for text that cannot be a key. This refuses most typing errors and made-up keys before a stored key is
 * read.
 */
export function parseKey(text: string): KeyText | null {
  if (!KEY.test(text)) return null
  const end = text.length - CHECKSUM_LENGTH - 1
  if (checksumOf(text.slice(0, end)) !== text.slice(end + 1)) return null
  const hex = text.slice(KEY_PREFIX.length, ID_END)
  const id = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  return { id, secret: text.slice(ID_END + 1, end) }
}

/** Whether a bearer token starts like a key, in upper or lower case. */
export function isMeantAsKey(token: string): boolean {
  return token.slice(0, KEY_PREFIX.length).toLowerCase() === KEY_PREFIX
}

/** Whether a URL contains a key or the start of one. */
export function containsKey(url: string): boolean {
  return PREFIX_IN_URL.test(url)
}

/** The CRC-32 (ISO-HDLC, as in zlib) of `text`. It is not a secret and only detects typing errors. */
function checksumOf(text: string): string {
  return inBase62(BigInt(crc32(text)), CHECKSUM_LENGTH)
}

function inBase62(number: bigint, length: number): string {
  let rest = number
  let digits = ''
  while (digits.length < length) {
    digits = `${DIGITS[Number(rest % 62n)]}${digits}`
    rest /= 62n
  }
  return digits
}
