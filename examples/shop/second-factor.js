import { isProblem } from '@storefront/client'
import { byId, whileDisabled } from './dom.js'
import { answerWithPasskey, hasPasskeys } from './passkey-ceremony.js'
import { explain } from './problems.js'

/** Runs a sign-in, and asks for the second factor where the account has one. Answers undefined when the customer gives up. */
export async function withSecondFactor(shop, signIn) {
  try {
    return await signIn()
  } catch (problem) {
    if (!isProblem(problem, 'second_factor_required')) throw problem
    return askForSecondFactor(shop, problem.problem)
  }
}

async function askForSecondFactor(shop, { challenge, passkey_options }) {
  const dialog = byId('second-factor')
  const form = byId('second-factor-form')
  const error = form.querySelector('.error')
  let user
  const complete = async (prove) => {
    error.textContent = ''
    try {
      user = await shop.completeLogin({ challenge, ...(await prove()) })
      dialog.close()
    } catch (problem) {
      error.textContent = explainProof(problem)
    }
  }
  form.onsubmit = (event) => {
    event.preventDefault()
    whileDisabled(event.submitter, () => complete(() => proofOf(form.elements.code.value)))
  }
  byId('prove-by-passkey').hidden = passkey_options === null || !hasPasskeys
  byId('prove-by-passkey').onclick = ({ target }) =>
    whileDisabled(target, () => complete(async () => ({ passkey: await answerWithPasskey(passkey_options) })))
  form.reset()
  error.textContent = ''
  dialog.showModal()
  await new Promise((resolve) => dialog.addEventListener('close', resolve, { once: true }))
  return user
}

/** Six digits are a code of the app, anything else a recovery code. */
export function proofOf(text) {
  const code = text.replace(/\s/g, '')
  return /^\d{6}$/.test(code) ? { totp_code: code } : { recovery_code: code }
}

export function explainProof(problem) {
  if (isProblem(problem, 'invalid_second_factor')) return 'That is wrong, or was used already.'
  if (isProblem(problem, 'invalid_challenge')) return 'This sign-in is over. Close this, and sign in again.'
  if (isProblem(problem, 'rate_limited')) return 'Too many wrong codes. Wait a while, or use a recovery code or a passkey.'
  return explain(problem)
}
