import type { Pool } from '../db/pool.ts'
import type { AccessTokens } from './access-token.ts'
import type { Passwords } from './password.ts'

/** What the use cases of this slice work with. */
export interface AuthContext {
  pool: Pool
  passwords: Passwords
  tokens: AccessTokens
  refreshGraceSeconds: number
  now: () => Date
}
