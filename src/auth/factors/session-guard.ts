import { sql } from '../../db/sql.ts'
import { AppError } from '../../errors.ts'
import type { AccountCaller } from '../../http/caller.ts'
import type { SessionGuard } from '../../http/session-guard.ts'
import type { AuthContext } from '../context.ts'
import { getUser } from '../users.ts'
import { findSecondFactors, isSecondFactorMethod } from './second-factors.ts'

/** The time for which a proof counts as fresh. */
const FRESH_MS = 10 * 60_000

/** The conditions of routes on a session besides its account and role. */
export function createSessionGuard({ pool, adminFactors, now }: Pick<AuthContext, 'pool' | 'adminFactors' | 'now'>): SessionGuard {
  return {
    async assertMayUseScopes({ userId, role }) {
      if (role !== 'admin' || !(await adminFactors.isActive())) return
      const { isRequired: hasFactor } = await findSecondFactors(pool, { id: userId, role })
      if (!hasFactor)
        throw new AppError(
          'second_factor_setup_required',
          'Admins of this store need a second factor. Set one up first: POST /me/passkeys/options or POST /me/totp.',
        )
    },
    async assertFreshProof(caller, when) {
      if (caller.role === 'guest' && when === 'always')
        throw new AppError('forbidden', 'Guests have nothing to sign in with: register first.')
      const { isRequired } = await findSecondFactors(pool, await getUser(pool, caller.userId))
      if (!isRequired && when !== 'always') return
      if (!(await isFresh(caller, isRequired))) {
        throw new AppError(
          'step_up_required',
          `Prove again who you are, and repeat the call: POST /auth/step-up. A proof counts for ${FRESH_MS / 60_000} minutes.`,
        )
      }
    },
  }

  async function isFresh({ sessionId }: AccountCaller, needsSecondFactor: boolean): Promise<boolean> {
    const { rows } = await pool.query<{ authenticated_by: string[] }>(sql`select authenticated_by from sessions
      where id = ${sessionId} and revoked_at is null and authenticated_at > ${new Date(now().getTime() - FRESH_MS)}`)
    if (rows[0] === undefined) return false
    return !needsSecondFactor || rows[0].authenticated_by.some(isSecondFactorMethod)
  }
}
