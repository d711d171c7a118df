import type { FreshCopies, FreshCopy } from '../../db/fresh-copies.ts'
import type { Queryable } from '../../db/pool.ts'
import { type Sql, sql } from '../../db/sql.ts'

const MAX_AGE_MS = 1_000

/** Whether admins need a second factor. They do once one admin has one, unless the policy is switched off. */
export class AdminFactorPolicy {
  /** The copy is null while the policy is off. */
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

  /** Call after committing a factor change and before answering. */
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
