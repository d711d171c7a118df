// The floor of logins: argon2id of node:crypto at the cost of src/auth/passwords/password.ts, with a thread for each
// core. Reports hashes a second.
import { type Argon2Parameters, argon2, randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { nowMs } from '../rig/clock.ts'

export interface BareHashes {
  atOnce: number
  seconds: number
  password: string
}

const hash = promisify(argon2) as (algorithm: 'argon2id', parameters: Argon2Parameters) => Promise<Buffer>

process.on('message', async ({ atOnce, seconds, password }: BareHashes) => {
  const beganMs = nowMs()
  let done = 0
  const one = async () => {
    while (nowMs() < beganMs + seconds * 1_000) {
      await hash('argon2id', { message: password, nonce: randomBytes(16), parallelism: 1, tagLength: 32, memory: 19_456, passes: 2 })
      done++
    }
  }
  await Promise.all(Array.from({ length: atOnce }, one))
  process.send?.(done / ((nowMs() - beganMs) / 1_000))
})
