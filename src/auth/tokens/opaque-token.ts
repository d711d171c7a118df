import { createHash, randomBytes } from 'node:crypto'

const BYTES = 32

/** 256 random bits as base64url. */
export function newToken(): string {
  return randomBytes(BYTES).toString('base64url')
}

/** A token's stored form. A plain hash is enough for 256 unguessable bits. */
export function hashToken(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
