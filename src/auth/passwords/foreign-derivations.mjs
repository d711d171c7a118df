// Derives the tags of other systems' password hashes in a hashing thread. Plain JavaScript: see hashing-thread.mjs.
import { argon2Sync, createHmac, hash, pbkdf2Sync, scryptSync } from 'node:crypto'
import bcrypt from 'bcryptjs'

const SCRYPT_KEY_BYTES = 64
const BCRYPT_TAG_LENGTH = 31
/** OpenSSL's memory for N, r and p within the bounds of foreign-hash.ts. */
const SCRYPT_MAX_MEMORY = 160 * 1024 * 1024
const ITOA64 = './0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** The tag of `password`, as foreign-hash.ts reads it from a stored hash. */
export function deriveForeign({ scheme, password, ...parameters }) {
  switch (scheme) {
    case 'bcrypt':
      return Buffer.from(bcrypt.hashSync(password, parameters.salt).slice(-BCRYPT_TAG_LENGTH))
    case 'wordpress-bcrypt': {
      const preHash = createHmac('sha384', 'wp-sha384').update(password, 'utf8').digest('base64')
      return deriveForeign({ scheme: 'bcrypt', password: preHash, ...parameters })
    }
    case 'phpass':
      return derivePhpass(Buffer.from(password, 'utf8'), parameters)
    case 'pbkdf2':
      return pbkdf2Sync(password, parameters.salt, parameters.iterations, parameters.tagLength, parameters.digest)
    case 'scrypt-kdf': {
      const { header, salt, logN, r, p } = parameters
      const key = scryptSync(password, salt, SCRYPT_KEY_BYTES, { N: 2 ** logN, r, p, maxmem: SCRYPT_MAX_MEMORY })
      return createHmac('sha256', key.subarray(32)).update(header).digest()
    }
    case 'argon2id':
      return argon2Sync('argon2id', { message: Buffer.from(password, 'utf8'), ...parameters })
    default:
      throw new Error(`there is no scheme ${scheme}`)
  }
}

/**
 * https://www.openwall.com/phpass/: iterated MD5. Its 16 bytes become 22 characters of six bits each, the lowest bits
 * first.
 */
function derivePhpass(password, { salt, logCount }) {
  let digest = hash('md5', Buffer.concat([Buffer.from(salt, 'latin1'), password]), 'buffer')
  for (let left = 2 ** logCount; left > 0; left--) digest = hash('md5', Buffer.concat([digest, password]), 'buffer')
  let text = ''
  for (let start = 0; start < digest.length; start += 3) {
    const part = digest.subarray(start, start + 3)
    const bits = part[0] | ((part[1] ?? 0) << 8) | ((part[2] ?? 0) << 16)
    for (let index = 0; index <= part.length; index++) text += ITOA64[(bits >> (6 * index)) & 0x3f]
  }
  return Buffer.from(text)
}
