import { t } from './language.ts'

/** WebAuthn in the browser. Throws a readable error when the operator cancels or the browser cannot do it. */

/** JSON has bytes as base64url (WebAuthn Level 3, §5.1.8 and §5.1.9). */
interface CredentialOptions {
  challenge: string
  user?: { id: string }
  excludeCredentials?: { id: string }[]
  allowCredentials?: { id: string }[]
}

export async function createPasskey(options: object): Promise<object> {
  const publicKey = decode(options as CredentialOptions) as unknown as PublicKeyCredentialCreationOptions
  const credential = (await credentials().create({ publicKey }).catch(explain)) as PublicKeyCredential
  const response = credential.response as AuthenticatorAttestationResponse
  return {
    ...plain(credential),
    response: {
      clientDataJSON: encode(response.clientDataJSON),
      attestationObject: encode(response.attestationObject),
      transports: response.getTransports(),
    },
  }
}

export async function answerWithPasskey(options: object): Promise<object> {
  const publicKey = decode(options as CredentialOptions) as unknown as PublicKeyCredentialRequestOptions
  const credential = (await credentials().get({ publicKey }).catch(explain)) as PublicKeyCredential
  const response = credential.response as AuthenticatorAssertionResponse
  return {
    ...plain(credential),
    response: {
      clientDataJSON: encode(response.clientDataJSON),
      authenticatorData: encode(response.authenticatorData),
      signature: encode(response.signature),
      ...(response.userHandle === null ? {} : { userHandle: encode(response.userHandle) }),
    },
  }
}

/** The browser's credentials. A page without TLS has none. */
function credentials(): CredentialsContainer {
  if (navigator.credentials === undefined) throw new Error(t`Passkeys need https.`)
  return navigator.credentials
}

function explain(error: unknown): never {
  if (!(error instanceof DOMException)) throw error
  throw new Error(error.name === 'InvalidStateError' ? t`This device has a passkey of your account already.` : t`No passkey was used.`)
}

function plain({ id, type }: PublicKeyCredential) {
  return { id, rawId: id, type, clientExtensionResults: {} }
}

function decode({ challenge, user, excludeCredentials = [], allowCredentials = [], ...options }: CredentialOptions) {
  const ids = (credentials: { id: string }[]) => credentials.map((credential) => ({ ...credential, id: toBytes(credential.id) }))
  return {
    ...options,
    challenge: toBytes(challenge),
    ...(user === undefined ? {} : { user: { ...user, id: toBytes(user.id) }, excludeCredentials: ids(excludeCredentials) }),
    ...(allowCredentials.length === 0 ? {} : { allowCredentials: ids(allowCredentials) }),
  }
}

function toBytes(text: string): Uint8Array {
  return Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (letter) => letter.charCodeAt(0))
}

function encode(bytes: ArrayBuffer): string {
  const text = String.fromCharCode(...new Uint8Array(bytes))
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}
