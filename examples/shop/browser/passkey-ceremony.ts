import type { Schemas } from '../store.ts'

/**
 * Whether the browser reads and writes WebAuthn's JSON itself, as browsers since 2025 do. Other browsers show no
 * passkey buttons.
 */
export const hasPasskeys =
  'PublicKeyCredential' in globalThis &&
  typeof PublicKeyCredential.parseRequestOptionsFromJSON === 'function' &&
  typeof PublicKeyCredential.prototype.toJSON === 'function'

type Answer = Schemas['PasskeySignIn']['passkey']
type Created = Schemas['NewPasskey']['passkey']

export async function answerWithPasskey(options: Schemas['PasskeyRequest']['options']): Promise<Answer> {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options as never)
  return ((await navigator.credentials.get({ publicKey })) as PublicKeyCredential).toJSON() as Answer
}

export async function createPasskey(options: Schemas['NewPasskeyRequest']['options']): Promise<Created> {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options as never)
  return ((await navigator.credentials.create({ publicKey })) as PublicKeyCredential).toJSON() as Created
}
