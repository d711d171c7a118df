import type { Pool, Queryable } from '../../db/pool.ts'

const REMEMBER_MS = 1_000

/** Whether operators with the role admin need a second factor: from when the first of them has one, unless it is switched off. */
export class AdminFactorPolicy {
  readonly #pool: Pool
  readonly #isEnabled: boolean
  #known: { isActive: boolean; until: number } = { isActive: false, until: 0 }

  constructor({ pool, isEnabled }: { pool: Pool; isEnabled: boolean }) {
    this.#pool = pool
    this.#isEnabled = isEnabled
  }

  /** Asks the database once a second at most. */
  async isActive(): Promise<boolean> {
    if (!this.#isEnabled) return false
    const ms = performance.now()
    if (ms >= this.#known.until) this.#known = { isActive: await hasAdminFactor(this.#pool), until: ms + REMEMBER_MS }
    return this.#known.isActive
  }

  /** This process has changed a factor. */
  forget(): void {
    this.#known = { isActive: false, until: 0 }
  }
}

/** Whether any admin has a second factor. */
export async function hasAdminFactor(db: Queryable): Promise<boolean> {
  const { rows } = await db.query<{ is_active: boolean }>(`select exists (
    select from users
    where role = 'admin' and (
      exists (select from passkeys where user_id = users.id)
      or exists (select from totp_authenticators where user_id = users.id and confirmed_at is not null)
    )
  ) as is_active`)
  return rows[0]?.is_active ?? false
}
