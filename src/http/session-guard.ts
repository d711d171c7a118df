import type { AccountCaller } from './caller.ts'

/** When a route needs recent authentication: `true` for accounts that have a second factor, `always` for all. */
export type StepUp = true | 'always'

/**
 * The proofs that a session needs besides its account and role. Implemented by `auth/`; API keys have no session and
 * are not asked.
 */
export interface SessionGuard {
  /** Throws `second_factor_setup_required`. */
  assertMayUseScopes(caller: AccountCaller): Promise<void>
  /** Throws `step_up_required`. */
  assertFreshProof(caller: AccountCaller, when: StepUp): Promise<void>
}
