import { isProblem, ProblemError } from '../store.ts'
import { t } from './session.ts'

/**
 * A text about what the customer can do when a call was refused or had no answer. Parts of the shop may have their own.
 */
export function explain(error: unknown): string {
  // The customer has closed the browser's dialog, or has no passkey for this shop.
  if (error instanceof DOMException) return t('No passkey was used.')
  if (isProblem(error, 'step_up_required')) return t('Nothing was changed. Try again, or sign out and in again first.')
  if (isProblem(error, 'invalid_one_time_token'))
    return t('The link was used already or is too old, a newer one replaces it, or it is of another account.')
  return error instanceof ProblemError ? error.problem.detail : t('The store cannot be reached. Try again.')
}

export function explainSignIn(error: unknown): string {
  if (isProblem(error, 'invalid_credentials')) return t('The address or the password is wrong.')
  if (isProblem(error, 'email_taken')) return t('There is an account with this address: sign in.')
  return explain(error)
}
