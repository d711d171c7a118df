import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

const NONCE_BYTES = 12
const TAG_BYTES = 16

/**
 * Encrypts (AES-256-GCM) with a key derived from `secret`, of 128 bits or more, for one `purpose`. Layout: nonce,
 * ciphertext, tag.
 */
export function encrypt(secret: string, purpose: string, text: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', deriveKey(secret, purpose), nonce)
  return Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
}

/** Reverses `encrypt`. Throws if the secret or purpose differs, or if the bytes were changed. */
export function decrypt(secret: string, purpose: string, encrypted: Buffer): string {
  const decipher = createDecipheriv('aes-256-gcm', deriveKey(secret, purpose), encrypted.subarray(0, NONCE_BYTES))
  decipher.setAuthTag(encrypted.subarray(-TAG_BYTES))
  return decipher.update(encrypted.subarray(NONCE_BYTES, -TAG_BYTES), undefined, 'utf8') + decipher.final('utf8')
}

/** Like `decrypt`, but returns null instead of throwing. */
export function tryDecrypt(secret: string, purpose: string, encrypted: Buffer): string | null {
  try {
    return decrypt(secret, purpose, encrypted)
  } catch {
    // AES-GCM has only this failure: the bytes were not encrypted with this key.
    return null
  }
}

/** Identifies a secret without revealing it. */
export function fingerprintOf(secret: string): string {
  return deriveKey(secret, 'fingerprint').toString('base64url')
}

/** The 256-bit key for one `purpose`, derived from the store's secret (HKDF, RFC 5869). */
export function deriveKey(secret: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', `storefront ${purpose}`, 32))
}
