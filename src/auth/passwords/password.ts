import { randomBytes, timingSafeEqual } from 'node:crypto'
import { AppError } from '../../errors.ts'
import { canonicalEmail } from '../email-address.ts'
import { readForeignHash } from './foreign-hash.ts'
import { type HashingOptions, HashingThreads } from './hashing-threads.ts'

export const PASSWORD_MIN_LENGTH = 8
export const PASSWORD_MAX_LENGTH = 128

/** Argon2id's costs for a hash. */
export interface HashCost {
  memoryKib: number
  passes: number
  parallelism: number
}

// OWASP Password Storage Cheat Sheet: argon2id with 19 MiB, two passes, one lane.
const COST: HashCost = { memoryKib: 19_456, passes: 2, parallelism: 1 }
const SALT_BYTES = 16
const TAG_BYTES = 32
const SALT_AND_TAG = /^[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/

/** Hashes and verifies passwords. Throws `overloaded` when too many hashes wait. */
export class Passwords {
  readonly #threads: HashingThreads
  readonly #cost: HashCost
  #common: ReadonlySet<string> | undefined

  constructor({ cost = COST, ...hashing }: HashingOptions & { cost?: HashCost | undefined }) {
    this.#threads = new HashingThreads(hashing)
    this.#cost = cost
  }

  /** Refuses a common password, and the account's own address as a password. `property` names it in the refusal. */
  async assertAcceptable(password: string, email: string, property = 'password'): Promise<void> {
    this.#common ??= await readCommonPasswords()
    const text = password.normalize('NFC')
    if (!this.#common.has(text.toLowerCase()) && canonicalEmail(text) !== email) return
    throw new AppError('password_too_common', 'This password is among the first an attacker would try. Choose another.', {
      errors: [{ pointer: `#/${property}`, detail: 'is too common' }],
    })
  }

  /**
   * A PHC string for `password` in NFC, because keyboards encode the same letter differently (NIST SP 800-63B
   * §3.1.1.2).
   */
  async hash(password: string): Promise<string> {
    const salt = randomBytes(SALT_BYTES)
    return toPhc(this.#cost, salt, await this.#derive(password.normalize('NFC'), salt))
  }

  /**
   * Whether `password` matches `stored`, which may be another system's hash. Null, for an unknown account, costs the
   * same and returns false. Failed checks must not reveal the hash's kind: one of a foreign hash also costs an own one,
   * and every other also costs `foreignDecoy` if given. A password with several Unicode spellings is tried in NFC and
   * NFD, because other systems hash what a keyboard sends.
   */
  async verify(password: string, stored: string | null, foreignDecoy: string | null = null): Promise<boolean> {
    for (const spelling of new Set([password.normalize('NFC'), password.normalize('NFD')])) {
      if (await this.#verifySpelling(spelling, stored, foreignDecoy)) return true
    }
    return false
  }

  async #verifySpelling(password: string, stored: string | null, foreignDecoy: string | null): Promise<boolean> {
    const isForeign = stored !== null && !this.#isOwn(stored)
    if (isForeign ? await this.#matchesForeign(password, stored) : await this.#matchesOwn(password, stored)) return true
    if (isForeign) await this.#matchesOwn(password, null)
    else if (foreignDecoy !== null) await this.#matchesForeign(password, foreignDecoy)
    return false
  }

  /** A hash that matches no password. An account with it gets a password by a mailed token. */
  unmatchable(): string {
    return this.#decoy()
  }

  /** Whether `stored` is another system's hash, or has another cost than the current one. */
  isOutdated(stored: string): boolean {
    return !this.#isOwn(stored)
  }

  #isOwn(stored: string): boolean {
    const prefix = costToPhc(this.#cost)
    return stored.startsWith(prefix) && SALT_AND_TAG.test(stored.slice(prefix.length))
  }

  async #matchesOwn(password: string, stored: string | null): Promise<boolean> {
    const [salt = '', tag = ''] = (stored ?? this.#decoy()).slice(costToPhc(this.#cost).length).split('$')
    const expected = Buffer.from(tag, 'base64')
    const actual = await this.#derive(password, Buffer.from(salt, 'base64'))
    return timingSafeEqual(actual, expected) && stored !== null
  }

  async #matchesForeign(password: string, stored: string): Promise<boolean> {
    const { derivation, tag } = readForeignHash(stored)
    const actual = await this.#threads.derive({ ...derivation, password })
    return actual.length === tag.length && timingSafeEqual(actual, tag)
  }

  /** A hash that matches no password and costs the same to check. */
  #decoy(): string {
    return toPhc(this.#cost, randomBytes(SALT_BYTES), randomBytes(TAG_BYTES))
  }

  stop(): Promise<void> {
    return this.#threads.stop()
  }

  #derive(password: string, nonce: Buffer): Promise<Buffer> {
    const { memoryKib: memory, passes, parallelism } = this.#cost
    return this.#threads.derive({ message: Buffer.from(password, 'utf8'), nonce, memory, passes, parallelism, tagLength: TAG_BYTES })
  }
}

/** Imported when the first password is set, because the import decompresses the list. */
async function readCommonPasswords(): Promise<ReadonlySet<string>> {
  const { dictionary } = await import('@zxcvbn-ts/language-common')
  return new Set(dictionary['passwords-common'])
}

function costToPhc({ memoryKib, passes, parallelism }: HashCost): string {
  return `$argon2id$v=19$m=${memoryKib},t=${passes},p=${parallelism}$`
}

function toPhc(cost: HashCost, salt: Buffer, tag: Buffer): string {
  return `${costToPhc(cost)}${encode(salt)}$${encode(tag)}`
}

function encode(bytes: Buffer): string {
  return bytes.toString('base64').replace(/=+$/, '')
}
