import type { Client } from 'openapi-fetch'
import type { CallOptions, Schemas } from './index.ts'
import { dataOf } from './problem.ts'
import type { paths } from './shop.ts'

/** Calls about the customer's account: its address, its password, and how it signs in. */
export function accountCalls(api: Client<paths>) {
  return {
    async account(call: CallOptions = {}): Promise<Schemas['Account']> {
      return dataOf(await api.GET('/me', { ...call }))
    },

    /** Mails a token for a new password, if there is such an account. */
    async requestPasswordReset(email: string, call: CallOptions = {}): Promise<void> {
      await api.POST('/auth/password-reset', { ...call, body: { email } })
    },

    /** Sets the password by a mailed token. Every session of the account ends, so log in with the new password. */
    async confirmPasswordReset(reset: Schemas['PasswordReset'], call: CallOptions = {}): Promise<void> {
      await api.POST('/auth/password-reset/confirm', { ...call, body: reset })
    },

    /** Mails a token to a new address for the account. Needs a recent proof: see `stepUp`. */
    async requestEmailChange(email: string, call: CallOptions = {}): Promise<void> {
      await api.POST('/me/email', { ...call, body: { email } })
    },

    /**
     * Mails a token to the account's address, which proves it. The account then gets the orders of guests with that
     * address.
     */
    async requestEmailProof(call: CallOptions = {}): Promise<void> {
      await api.POST('/me/email/proof', { ...call })
    },

    /** Changes or proves the address by a mailed token (`#confirm-email=…`), in a session of the account. */
    async confirmEmail(token: string, call: CallOptions = {}): Promise<Schemas['User']> {
      return dataOf(await api.POST('/me/email/confirm', { ...call, body: { token } }))
    },

    /**
     * Reverts a change by the token that the former address has (`#revert-email=…`), without a session. Every session
     * of the account ends.
     */
    async revertEmailChange(token: string, call: CallOptions = {}): Promise<void> {
      await api.POST('/auth/email/revert', { ...call, body: { token } })
    },

    /** The ways in which the customer can prove their identity again, after `step_up_required`. */
    async stepUpOptions(call: CallOptions = {}): Promise<Schemas['StepUpRequest']> {
      return dataOf(await api.POST('/auth/step-up/options', { ...call }))
    },

    /** Proves it with one of the `methods`. The refused call can be repeated then. */
    async stepUp(proof: Schemas['StepUp'], call: CallOptions = {}): Promise<void> {
      await api.POST('/auth/step-up', { ...call, body: proof })
    },

    /**
     * Registers a passkey for the account. `create` passes the options to `navigator.credentials.create` and returns
     * its answer as JSON.
     */
    async addPasskey(
      name: string,
      create: (options: Schemas['NewPasskeyRequest']['options']) => Promise<Schemas['NewPasskey']['passkey']>,
      call: CallOptions = {},
    ): Promise<Schemas['PasskeyAdded']> {
      const { options } = dataOf(await api.POST('/me/passkeys/options', { ...call }))
      return dataOf(await api.POST('/me/passkeys', { ...call, body: { name, passkey: await create(options) } }))
    },

    /** Adds a provider with which the customer has just signed in to the account. */
    async linkSignIn(code: string, codeVerifier: string, call: CallOptions = {}): Promise<Schemas['LinkedSignIn']> {
      return dataOf(await api.POST('/me/sign-ins', { ...call, body: { code, code_verifier: codeVerifier } }))
    },

    /** Removes a provider from the account. */
    async unlinkSignIn(provider: string, call: CallOptions = {}): Promise<void> {
      await api.DELETE('/me/sign-ins/{provider}', { ...call, params: { path: { provider } } })
    },
  }
}
