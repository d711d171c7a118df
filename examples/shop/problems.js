import { isProblem } from '@storefront/client'

/** What the customer can do about a call that the store has refused or that did not reach it, where a part of the page has no words of its own. */
export function explain(problem) {
  // The customer has closed the browser's dialog, or there is no passkey of this shop.
  if (problem instanceof DOMException) return 'No passkey was used.'
  if (isProblem(problem, 'step_up_required')) return 'Nothing was changed. Try again, or sign out and in again first.'
  if (isProblem(problem, 'invalid_one_time_token'))
    return 'The link was used already or is too old, a newer one replaces it, or it is of another account.'
  return problem.problem?.detail ?? 'The store cannot be reached. Try again.'
}
