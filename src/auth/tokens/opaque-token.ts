import { createHash, randomBytes } from 'node:crypto'

const BYTES = 32

/** 256 random bits, in characters that need no escaping in a URL. */
export function newToken(): string {
  return randomBytes(BYTES).toString('base64url')
}

/** What is stored of a token. A plain hash will do: nobody can guess 256 bits. */
export function hashToken(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
