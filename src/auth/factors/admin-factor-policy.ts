import type { FreshCopies, FreshCopy } from '../../db/fresh-copies.ts'
import type { Queryable } from '../../db/pool.ts'
import { type Sql, sql } from '../../db/sql.ts'

const MAX_AGE_MS = 1_000

/** Whether operators with the role admin need a second factor: from when the first of them has one, unless it is switched off. */
export class AdminFactorPolicy {
  /** Is null when the policy is switched off. */
  readonly #copy: FreshCopy<{ isActive: boolean }> | null
  #isActive = false

  constructor({ copies, isEnabled }: { copies: FreshCopies; isEnabled: boolean }) {
    this.#copy = isEnabled
      ? copies.add<{ isActive: boolean }>({
          name: 'admin_factors',
          columns: ['isActive'],
          read: () => HAS_ADMIN_FACTOR,
          maxAgeMs: MAX_AGE_MS,
          learn: ({ isActive }) => {
            this.#isActive = isActive
          },
        })
      : null
  }

  async isActive(): Promise<boolean> {
    await this.#copy?.ensureFresh()
    return this.#isActive
  }

  /** This process has changed a factor: call it after the commit and before the answer. */
  async refresh(): Promise<void> {
    await this.#copy?.refresh()
  }
}

const HAS_ADMIN_FACTOR: Sql = sql`select exists (
    select from users
    where role = 'admin' and (
      exists (select from passkeys where user_id = users.id)
      or exists (select from totp_authenticators where user_id = users.id and confirmed_at is not null)
    )
  ) as "isActive"`

export async function hasAdminFactor(db: Queryable): Promise<boolean> {
  const { rows } = await db.query<{ isActive: boolean }>(HAS_ADMIN_FACTOR)
  return rows[0]?.isActive ?? false
}
