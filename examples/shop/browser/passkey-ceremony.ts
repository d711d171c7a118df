import type { Schemas } from '../store.ts'

/** Browsers from 2025 on read and write WebAuthn's JSON themselves; without that the buttons stay away. */
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
