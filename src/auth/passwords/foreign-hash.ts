import { hash } from 'node:crypto'

/** The input from which a hashing thread derives a password's tag in another system's scheme. */
export type ForeignDerivation = { password: string } & (
  | { scheme: 'bcrypt' | 'wordpress-bcrypt'; salt: string }
  | { scheme: 'phpass'; salt: string; logCount: number }
  | { scheme: 'pbkdf2'; digest: string; iterations: number; salt: Uint8Array; tagLength: number }
  | { scheme: 'scrypt-kdf'; header: Uint8Array; salt: Uint8Array; logN: number; r: number; p: number }
  | { scheme: 'argon2id'; nonce: Uint8Array; memory: number; passes: number; parallelism: number; tagLength: number }
)
type WithoutPassword<T> = T extends unknown ? Omit<T, 'password'> : never

/** Another system's stored hash: the derivation's input and its expected result. */
export interface ForeignHash {
  derivation: WithoutPassword<ForeignDerivation>
  tag: Buffer
}

// These limits keep a login to about a second of one core and 128 MiB.
const BCRYPT_COSTS = [4, 14] as const
const PHPASS_LOG_COUNTS = [7, 18] as const
const PBKDF2_ITERATIONS = [1_000, 1_000_000] as const
const SCRYPT_LOG_N = [10, 17] as const
/** N · r · p; the memory is 128 · N · r bytes. */
const SCRYPT_MAX_WORK = 2 ** 20
const ARGON2_MEMORY_KIB = [8, 131_072] as const
const ARGON2_MAX_WORK_KIB = 262_144
const ARGON2_MAX_LANES = 16
/** RFC 9106 §3.1. */
const ARGON2_LEAST_KIB_PER_LANE = 8

const ITOA64 = './0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const ARGON2ID = /^\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,9}),p=(\d{1,9})\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{16,86})$/
const BCRYPT = /^(\$wp)?(\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{22})([./A-Za-z0-9]{31})$/
const PHPASS = /^\$[PH]\$([./A-Za-z0-9])([./A-Za-z0-9]{8})([./A-Za-z0-9]{22})$/
const PBKDF2 = /^\$pbkdf2-(sha1|sha256|sha512)\$i=(\d{1,10})(?:,l=(\d{1,3}))?\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{16,86})$/
const SCRYPT_KDF = /^c2NyeXB0[A-Za-z0-9+/]{120}$/

/** The store cannot check this hash. The message does not contain the hash. */
export class UnusableHash extends Error {
  override readonly name = 'UnusableHash'
}

/**
 * Reads another system's hash: bcrypt (`$2a$`, `$2b$`, `$2y$`), WordPress's bcrypt (`$wp$2y$`), phpass (`$P$`, `$H$`),
 * pbkdf2 and argon2id as PHC strings, and the base64 of npm's scrypt-kdf, which Medusa stores. Throws UnusableHash for
 * an unknown, damaged or too costly hash, which must not be stored. Pure.
 */
export function readForeignHash(stored: string): ForeignHash {
  return readBcrypt(stored) ?? readPhpass(stored) ?? readPbkdf2(stored) ?? readScrypt(stored) ?? readArgon2id(stored) ?? refuseKind(stored)
}

function readArgon2id(stored: string): ForeignHash | null {
  const [, m, t, p, salt = '', encoded] = ARGON2ID.exec(stored) ?? []
  if (encoded === undefined) return null
  const [memory, passes, parallelism] = [Number(m), Number(t), Number(p)]
  assertBetween(memory, ARGON2_MEMORY_KIB, 'argon2id: m')
  assertBetween(memory * passes, [1, ARGON2_MAX_WORK_KIB], 'argon2id: m times t')
  assertBetween(parallelism, [1, Math.min(ARGON2_MAX_LANES, Math.floor(memory / ARGON2_LEAST_KIB_PER_LANE))], 'argon2id: p')
  const tag = Buffer.from(encoded, 'base64')
  return {
    derivation: { scheme: 'argon2id', nonce: Buffer.from(salt, 'base64'), memory, passes, parallelism, tagLength: tag.length },
    tag,
  }
}

function readBcrypt(stored: string): ForeignHash | null {
  const [, wordPress, salt = '', cost, tag] = BCRYPT.exec(stored) ?? []
  if (tag === undefined) return null
  assertBetween(Number(cost), BCRYPT_COSTS, 'bcrypt: cost')
  return { derivation: { scheme: wordPress === undefined ? 'bcrypt' : 'wordpress-bcrypt', salt }, tag: Buffer.from(tag) }
}

function readPhpass(stored: string): ForeignHash | null {
  const [, count = '', salt = '', tag] = PHPASS.exec(stored) ?? []
  if (tag === undefined) return null
  const logCount = ITOA64.indexOf(count)
  assertBetween(logCount, PHPASS_LOG_COUNTS, 'phpass: binary logarithm of the count')
  return { derivation: { scheme: 'phpass', salt, logCount }, tag: Buffer.from(tag) }
}

function readPbkdf2(stored: string): ForeignHash | null {
  const [, digest = '', count, length, salt = '', encoded] = PBKDF2.exec(stored) ?? []
  if (encoded === undefined) return null
  const iterations = Number(count)
  assertBetween(iterations, PBKDF2_ITERATIONS, 'pbkdf2: iterations')
  const tag = Buffer.from(encoded, 'base64')
  if (length !== undefined && Number(length) !== tag.length) refuse('its hash of kind pbkdf2 is damaged')
  return { derivation: { scheme: 'pbkdf2', digest, iterations, salt: Buffer.from(salt, 'base64'), tagLength: tag.length }, tag }
}

/** Colin Percival's scrypt header: magic, version, log N, r, p, salt (48 bytes), a checksum (16), and the tag (32). */
function readScrypt(stored: string): ForeignHash | null {
  if (!SCRYPT_KDF.test(stored)) return null
  const bytes = Buffer.from(stored, 'base64')
  if (!hash('sha256', bytes.subarray(0, 48), 'buffer').subarray(0, 16).equals(bytes.subarray(48, 64))) {
    refuse('its hash of kind scrypt is damaged')
  }
  const [logN, r, p] = [bytes.readUInt8(7), bytes.readUInt32BE(8), bytes.readUInt32BE(12)]
  assertBetween(logN, SCRYPT_LOG_N, 'scrypt: log N')
  // RFC 7914 §2: N is less than 2^(128 · r / 8).
  assertBetween(logN, [1, 16 * r - 1], 'scrypt: log N for its r')
  assertBetween(2 ** logN * r * p, [1, SCRYPT_MAX_WORK], 'scrypt: N times r times p')
  return {
    derivation: { scheme: 'scrypt-kdf', header: bytes.subarray(0, 64), salt: bytes.subarray(16, 48), logN, r, p },
    tag: bytes.subarray(64),
  }
}

const KNOWN_PREFIXES = /^(\$2|\$wp\$|\$P\$|\$H\$|\$pbkdf2|\$argon2id|c2NyeXB0)/

function refuseKind(stored: string): never {
  return refuse(KNOWN_PREFIXES.test(stored) ? 'its hash is damaged, or of an unknown variant' : 'its hash is of an unknown kind')
}

function refuse(reason: string): never {
  throw new UnusableHash(reason)
}

function assertBetween(value: number, [least, most]: readonly [number, number], name: string): void {
  if (value >= least && value <= most) return
  refuse(`its hash costs too ${value > most ? 'much' : 'little'} (${name} is ${value}, allowed are ${least} to ${most})`)
}
