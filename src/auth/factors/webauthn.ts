import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server'
import { CHALLENGE_SECONDS } from './challenges.ts'

/** The site that passkeys are registered for (WebAuthn §4). */
export interface RelyingParty {
  /** The passkeys' domain; every origin is on it or below it. */
  id: string
  /** The name in browsers and authenticator apps. */
  name: string
  /** The origins whose pages may use the passkeys. */
  origins: readonly string[]
}

/** The description of a passkey for browsers. */
export interface CredentialDescriptor {
  credentialId: string
  transports: readonly string[]
}

export interface NewCredential extends CredentialDescriptor {
  publicKey: Buffer
  signCount: number
}

// EdDSA, ES256 and RS256: every authenticator supports one of them.
const ALGORITHMS = [-8, -7, -257]
const MAX_TRANSPORTS = 10

// Imported at first use, because the library takes a third of a second and 30 MB, and many stores have no passkeys.
const library = () => import('@simplewebauthn/server')
const helpers = () => import('@simplewebauthn/server/helpers')

/**
 * Options for `navigator.credentials.create`. A passkey names its account and verifies its user, so it is two factors
 * in one.
 */
export async function creationOptions(
  { id, name }: RelyingParty,
  user: { id: string; email: string; name: string | null },
  existing: readonly CredentialDescriptor[],
  challenge: string,
): Promise<PublicKeyCredentialCreationOptionsJSON> {
  return (await library()).generateRegistrationOptions({
    rpName: name,
    rpID: id,
    userName: user.email,
    userDisplayName: user.name ?? user.email,
    userID: new Uint8Array(userHandleOf(user.id)),
    challenge: new Uint8Array(Buffer.from(challenge, 'base64url')),
    timeout: CHALLENGE_SECONDS * 1000,
    attestationType: 'none',
    excludeCredentials: existing.map(toDescriptor),
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    supportedAlgorithmIDs: ALGORITHMS,
  })
}

/** Options for `navigator.credentials.get`. If `allowed` is empty, the browser offers every passkey of this store. */
export async function requestOptions(
  { id }: RelyingParty,
  allowed: readonly CredentialDescriptor[],
  challenge: string,
): Promise<PublicKeyCredentialRequestOptionsJSON> {
  return (await library()).generateAuthenticationOptions({
    rpID: id,
    challenge: new Uint8Array(Buffer.from(challenge, 'base64url')),
    timeout: CHALLENGE_SECONDS * 1000,
    allowCredentials: allowed.map(toDescriptor),
    userVerification: 'required',
  })
}

function toDescriptor({ credentialId, transports }: CredentialDescriptor) {
  return { id: credentialId, transports: [...transports] }
}

/** The challenge in the browser's client data, which is a stored challenge's token; null for other text. */
export function challengeOf({ clientDataJSON }: { clientDataJSON: string }): string | null {
  try {
    const { challenge, crossOrigin } = JSON.parse(Buffer.from(clientDataJSON, 'base64url').toString('utf8'))
    // With `crossOrigin`, a frame in another origin's page made this data.
    return typeof challenge === 'string' && crossOrigin !== true ? challenge : null
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError) return null
    throw error
  }
}

/** The new passkey. Null unless a page of the store made it for this challenge, with the user verified. */
export async function verifyRegistration(
  { id, origins }: RelyingParty,
  response: RegistrationResponseJSON,
  challenge: string,
): Promise<NewCredential | null> {
  const { verifyRegistrationResponse } = await library()
  if (!(await isPlainAttestation(response.response.attestationObject))) return null
  const result = await orNull(() =>
    verifyRegistrationResponse({
      response,
      expectedChallenge: challenge,
      expectedOrigin: [...origins],
      expectedRPID: id,
      requireUserVerification: true,
      supportedAlgorithmIDs: ALGORITHMS,
    }),
  )
  if (result === null || !result.verified) return null
  const { id: credentialId, publicKey, counter, transports = [] } = result.registrationInfo.credential
  return { credentialId, publicKey: Buffer.from(publicKey), signCount: counter, transports: transports.slice(0, MAX_TRANSPORTS) }
}

/**
 * The store requests no attestation. Reading certificates would make the library fetch addresses that a stranger sent.
 */
async function isPlainAttestation(attestationObject: string): Promise<boolean> {
  const { decodeAttestationObject } = await helpers()
  const decoded = await orNull(async () => decodeAttestationObject(new Uint8Array(Buffer.from(attestationObject, 'base64url'))))
  if (decoded === null) return false
  const format = await orNull(async () => [decoded.get('fmt'), decoded.get('attStmt').get('x5c')] as const)
  return format !== null && (format[0] === 'none' || (format[0] === 'packed' && format[1] === undefined))
}

/** The authenticator's counter after a valid answer to this challenge; otherwise null. */
export async function verifyAssertion(
  { id, origins }: RelyingParty,
  response: AuthenticationResponseJSON,
  challenge: string,
  passkey: { credentialId: string; publicKey: Buffer },
): Promise<number | null> {
  const { verifyAuthenticationResponse } = await library()
  const result = await orNull(() =>
    verifyAuthenticationResponse({
      response,
      expectedChallenge: challenge,
      expectedOrigin: [...origins],
      expectedRPID: id,
      requireUserVerification: true,
      // The caller compares the counter, because it records a decrease.
      credential: { id: passkey.credentialId, publicKey: new Uint8Array(passkey.publicKey), counter: 0 },
    }),
  )
  return result?.verified ? result.authenticationInfo.newCounter : null
}

/** An account's handle in its passkeys: the bytes of its id, which reveal nothing about the person. */
export function userHandleOf(userId: string): Buffer {
  return Buffer.from(userId.replaceAll('-', ''), 'hex')
}

/** The library refuses input by many plain errors. It only computes, so none of them is an outage. */
async function orNull<T>(verify: () => Promise<T>): Promise<T | null> {
  try {
    return await verify()
  } catch (error) {
    if (error instanceof Error) return null
    throw error
  }
}
