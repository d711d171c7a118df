import { isProblem } from '@storefront/client'
import { ask } from './ask.js'
import { element } from './dom.js'
import { answerWithPasskey, hasPasskeys } from './passkey-ceremony.js'
import { explainProof, proofOf } from './second-factor.js'

/** Makes a call that needs a fresh proof of who is here: asks for it where the last one is too old, and makes the call again. */
export async function withFreshProof(shop, call) {
  try {
    return await call()
  } catch (problem) {
    if (!isProblem(problem, 'step_up_required') || !(await askForProof(shop))) throw problem
    return call()
  }
}

/** An account that only a provider opens has nothing to ask for: its customer signs in again. */
async function askForProof(shop) {
  const { methods, passkey_options } = await shop.stepUpOptions()
  const usePasskey = async () => shop.stepUp({ passkey: await answerWithPasskey(passkey_options) })
  const others = passkey_options !== null && hasPasskeys ? { 'Use a passkey': usePasskey } : {}
  const question = { text: ['This change needs a proof of the last ten minutes.'], others, explain: explainProof }
  const title = 'Confirm that it is you'
  if (methods.includes('password')) {
    const input = element('input', { type: 'password', required: true, autocomplete: 'current-password' })
    return ask(title, { ...question, label: 'Password', input, action: 'Continue', send: (password) => shop.stepUp({ password }) })
  }
  if (methods.includes('totp') || methods.includes('recovery_code')) {
    const label = 'Code of your authenticator app, or a recovery code'
    const input = element('input', { required: true, maxLength: 40, autocomplete: 'one-time-code', spellcheck: false })
    return ask(title, { ...question, label, input, action: 'Continue', send: (code) => shop.stepUp(proofOf(code)) })
  }
  return Object.keys(others).length > 0 && ask(title, question)
}
