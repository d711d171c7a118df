import { randomBytes, timingSafeEqual } from 'node:crypto'
import { dictionary } from '@zxcvbn-ts/language-common'
import { AppError } from '../../errors.ts'
import { canonicalEmail } from '../email-address.ts'
import { type HashingOptions, HashingThreads } from './hashing-threads.ts'

export const PASSWORD_MIN_LENGTH = 8
export const PASSWORD_MAX_LENGTH = 128

interface Cost {
  memoryKib: number
  passes: number
  parallelism: number
}

// OWASP Password Storage Cheat Sheet: argon2id with 19 MiB, two passes, one lane.
const COST: Cost = { memoryKib: 19_456, passes: 2, parallelism: 1 }
const SALT_BYTES = 16
const TAG_BYTES = 32
const PHC = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/

/** Hashes and verifies passwords. Throws `unavailable` when too many hashes wait. */
export class Passwords {
  readonly #threads: HashingThreads
  readonly #cost: Cost
  #common: ReadonlySet<string> | undefined

  constructor({ cost = COST, ...hashing }: HashingOptions & { cost?: Cost }) {
    this.#threads = new HashingThreads(hashing)
    this.#cost = cost
  }

  /** Refuses a password that is on a list of common ones or is the account's own address. `property` names it in the refusal. */
  assertAcceptable(password: string, email: string, property = 'password'): void {
    this.#common ??= new Set(dictionary['passwords-common'])
    if (!this.#common.has(password.toLowerCase()) && canonicalEmail(password) !== email) return
    throw new AppError('password_too_common', 'This password is among the first an attacker would try. Choose another.', {
      errors: [{ pointer: `#/${property}`, detail: 'is too common' }],
    })
  }

  /** A PHC string for `password`. */
  async hash(password: string): Promise<string> {
    const salt = randomBytes(SALT_BYTES)
    return toPhc(this.#cost, salt, await this.#derive(password, salt, this.#cost, TAG_BYTES))
  }

  /** Whether `password` matches `stored`. With null, for an unknown account, it does the same work and returns false. */
  async verify(password: string, stored: string | null): Promise<boolean> {
    const [, memory, passes, parallelism, salt = '', tag = ''] = PHC.exec(stored ?? this.#decoy()) ?? []
    if (tag === '') throw new Error('a stored password hash is not an argon2id PHC string')
    const expected = Buffer.from(tag, 'base64')
    const cost = { memoryKib: Number(memory), passes: Number(passes), parallelism: Number(parallelism) }
    const actual = await this.#derive(password, Buffer.from(salt, 'base64'), cost, expected.length)
    return timingSafeEqual(actual, expected) && stored !== null
  }

  /** Whether `stored` was computed at a lower cost than the current one. */
  isOutdated(stored: string): boolean {
    const [, memory, passes, parallelism] = PHC.exec(stored) ?? []
    const { memoryKib, passes: today, parallelism: lanes } = this.#cost
    return Number(memory) < memoryKib || Number(passes) < today || Number(parallelism) < lanes
  }

  /** A hash of no password that costs the same to compare. */
  #decoy(): string {
    return toPhc(this.#cost, randomBytes(SALT_BYTES), randomBytes(TAG_BYTES))
  }

  /** Idempotent. */
  stop(): Promise<void> {
    return this.#threads.stop()
  }

  #derive(password: string, nonce: Buffer, { memoryKib, passes, parallelism }: Cost, tagLength: number): Promise<Buffer> {
    return this.#threads.derive({ message: Buffer.from(password, 'utf8'), nonce, memory: memoryKib, passes, parallelism, tagLength })
  }
}

function toPhc({ memoryKib, passes, parallelism }: Cost, salt: Buffer, tag: Buffer): string {
  return `$argon2id$v=19$m=${memoryKib},t=${passes},p=${parallelism}$${encode(salt)}$${encode(tag)}`
}

function encode(bytes: Buffer): string {
  return bytes.toString('base64').replace(/=+$/, '')
}
