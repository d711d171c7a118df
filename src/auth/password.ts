import { argon2, randomBytes, timingSafeEqual } from 'node:crypto'
import { dictionary } from '@zxcvbn-ts/language-common'
import { AppError } from '../errors.ts'

export const PASSWORD_MIN_LENGTH = 8
export const PASSWORD_MAX_LENGTH = 128

// OWASP Password Storage Cheat Sheet: argon2id with 19 MiB, two passes, one lane.
const MEMORY_KIB = 19_456
const PASSES = 2
const PARALLELISM = 1
const SALT_BYTES = 16
const TAG_BYTES = 32
const PHC = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/

/**
 * Hashes and verifies passwords, no more than `concurrency` at a time, so that the thread pool stays free for the rest of
 * the process. Past `maxWaiting` in the queue it throws `unavailable`.
 */
export class Passwords {
  readonly #concurrency: number
  readonly #maxWaiting: number
  readonly #waiting: (() => void)[] = []
  #running = 0
  #decoy: Promise<string> | undefined
  #common: ReadonlySet<string> | undefined

  constructor(concurrency: number, maxWaiting: number) {
    this.#concurrency = concurrency
    this.#maxWaiting = maxWaiting
  }

  /** Refuses a password that is on a list of common ones or is the account's own address. */
  assertAcceptable(password: string, email: string): void {
    this.#common ??= new Set(dictionary['passwords-common'])
    const lower = password.toLowerCase()
    if (!this.#common.has(lower) && lower !== email) return
    throw new AppError('password_too_common', 'This password is among the first an attacker would try. Choose another.', {
      errors: [{ pointer: '#/password', detail: 'is too common' }],
    })
  }

  /** A PHC string for `password`. */
  async hash(password: string): Promise<string> {
    const salt = randomBytes(SALT_BYTES)
    const tag = await this.#derive(password, salt, MEMORY_KIB, PASSES, PARALLELISM, TAG_BYTES)
    return `$argon2id$v=19$m=${MEMORY_KIB},t=${PASSES},p=${PARALLELISM}$${encode(salt)}$${encode(tag)}`
  }

  /** Whether `password` belongs to `stored`. With null, for no such account, it does the same work and is false. */
  async verify(password: string, stored: string | null): Promise<boolean> {
    this.#decoy ??= this.hash(randomBytes(SALT_BYTES).toString('hex'))
    const [, memory, passes, parallelism, salt = '', tag = ''] = PHC.exec(stored ?? (await this.#decoy)) ?? []
    if (tag === '') throw new Error('a stored password hash is not an argon2id PHC string')
    const expected = Buffer.from(tag, 'base64')
    const actual = await this.#derive(
      password,
      Buffer.from(salt, 'base64'),
      Number(memory),
      Number(passes),
      Number(parallelism),
      expected.length,
    )
    return timingSafeEqual(actual, expected) && stored !== null
  }

  async #derive(password: string, nonce: Buffer, memory: number, passes: number, parallelism: number, tagLength: number): Promise<Buffer> {
    await this.#enter()
    try {
      const parameters = { message: Buffer.from(password, 'utf8'), nonce, memory, passes, parallelism, tagLength }
      return await new Promise((resolve, reject) => {
        argon2('argon2id', parameters, (error, tag) => (error ? reject(error) : resolve(tag)))
      })
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#running--
      else next()
    }
  }

  async #enter(): Promise<void> {
    if (this.#running < this.#concurrency) {
      this.#running++
      return
    }
    if (this.#waiting.length >= this.#maxWaiting) {
      throw new AppError('unavailable', 'Too many people are logging in at this moment. Try again shortly.')
    }
    // The one that finishes hands over its place.
    await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }
}

function encode(bytes: Buffer): string {
  return bytes.toString('base64').replace(/=+$/, '')
}
