/** Browsers from 2025 on read and write WebAuthn's JSON themselves; without that the buttons stay away. */
export const hasPasskeys =
  globalThis.PublicKeyCredential?.parseRequestOptionsFromJSON !== undefined && PublicKeyCredential.prototype.toJSON !== undefined

export const answerWithPasskey = async (options) => {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options)
  return (await navigator.credentials.get({ publicKey })).toJSON()
}

export const createPasskey = async (options) => {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options)
  return (await navigator.credentials.create({ publicKey })).toJSON()
}
