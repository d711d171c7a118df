/** WebAuthn in the browser: options from the store in, what the store is sent out. Throws when the operator cancels, or the browser cannot. */

/** Bytes are base64url in JSON (WebAuthn Level 3, §5.1.8 and §5.1.9). */
interface CredentialOptions {
  challenge: string
  user?: { id: string }
  excludeCredentials?: { id: string }[]
  allowCredentials?: { id: string }[]
}

export async function createPasskey(options: object): Promise<object> {
  const publicKey = decode(options as CredentialOptions) as unknown as PublicKeyCredentialCreationOptions
  const credential = (await navigator.credentials.create({ publicKey })) as PublicKeyCredential
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
  const credential = (await navigator.credentials.get({ publicKey })) as PublicKeyCredential
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

/** What the operator is told when the browser has ended a ceremony. */
export function explainCeremony(error: unknown): string | null {
  if (!(error instanceof DOMException)) return null
  return error.name === 'InvalidStateError' ? 'This device has a passkey of your account already.' : 'No passkey was used.'
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
