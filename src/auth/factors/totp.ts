import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

// The parameters that every authenticator app supports: SHA-1, six digits, thirty seconds (RFC 6238 §1.2, RFC 4226
// §5.3).
const DIGITS = 6
const STEP_SECONDS = 30
// The size of a SHA-1 hash (RFC 4226 §4).
const SECRET_BYTES = 20
/** The accepted steps before and after the current one, since clocks differ and typing takes time (RFC 6238 §5.2). */
const WINDOW = 1
const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

export const TOTP_PATTERN = `^[0-9]{${DIGITS}}$`

export function newTotpSecret(): string {
  return toBase32(randomBytes(SECRET_BYTES))
}

export function totpCode(secret: string, step: number): string {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(step))
  const mac = createHmac('sha1', fromBase32(secret)).update(counter).digest()
  const offset = (mac.at(-1) ?? 0) & 0xf
  return String((mac.readUInt32BE(offset) & 0x7fffffff) % 10 ** DIGITS).padStart(DIGITS, '0')
}

/** The code's time step; null for a wrong, too old or too early code. Compares in constant time. */
export function findTotpStep(secret: string, code: string, now: Date): number | null {
  const present = totpStepOf(now)
  let found: number | null = null
  for (let step = present - WINDOW; step <= present + WINDOW; step++) {
    const expected = Buffer.from(totpCode(secret, step))
    const given = Buffer.from(code)
    if (given.length === expected.length && timingSafeEqual(given, expected)) found = step
  }
  return found
}

export function totpStepOf(now: Date): number {
  return Math.floor(now.getTime() / 1000 / STEP_SECONDS)
}

/** The text of the QR code for authenticator apps (Key URI Format). */
export function totpUri(secret: string, issuer: string, account: string): string {
  const label = `${encodeURIComponent(issuer)}:${encodeURIComponent(account)}`
  return `otpauth://totp/${label}?secret=${secret}&issuer=${encodeURIComponent(issuer)}&algorithm=SHA1&digits=${DIGITS}&period=${STEP_SECONDS}`
}

/** RFC 4648 §6, without padding. */
export function toBase32(bytes: Uint8Array): string {
  let text = ''
  let bits = 0
  let value = 0
  for (const byte of bytes) {
    value = (value << 8) | byte
    bits += 8
    for (; bits >= 5; bits -= 5) text += BASE32[(value >>> (bits - 5)) & 31]
    value &= (1 << bits) - 1
  }
  return bits === 0 ? text : text + BASE32[(value << (5 - bits)) & 31]
}

function fromBase32(text: string): Buffer {
  const bytes: number[] = []
  let bits = 0
  let value = 0
  for (const letter of text) {
    value = (value << 5) | BASE32.indexOf(letter)
    bits += 5
    if (bits >= 8) {
      bits -= 8
      bytes.push((value >>> bits) & 255)
    }
    value &= (1 << bits) - 1
  }
  return Buffer.from(bytes)
}
