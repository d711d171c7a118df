import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import { Type } from 'typebox'
import { Name, PresentedPassword, strict } from '../schemas.ts'
import {
  EXAMPLE_ASSERTION,
  EXAMPLE_ATTESTATION,
  EXAMPLE_FACTORS,
  EXAMPLE_NEW_PASSKEY_REQUEST,
  EXAMPLE_PASSKEY,
  EXAMPLE_PASSKEY_REQUEST,
  EXAMPLE_RECOVERY_CODES,
  EXAMPLE_SECOND_FACTOR,
  EXAMPLE_STEP_UP_REQUEST,
  EXAMPLE_TOTP_SETUP,
} from './examples.ts'
import { SECOND_FACTOR_METHODS } from './second-factors.ts'
import { TOTP_PATTERN } from './totp.ts'

const base64url = (maxLength: number) =>
  Type.String({ minLength: 1, maxLength, pattern: '^[A-Za-z0-9_-]+$', 'x-must': 'be written in base64url' })
// WebAuthn Level 2 allows ids of up to 1,023 bytes.
const CredentialId = base64url(1_364)

/** The forms of WebAuthn (Level 3, §5.1) that browsers' `toJSON()` produces. Unused parts are bounded too. */
const ofCredential = {
  id: CredentialId,
  rawId: CredentialId,
  type: Type.Literal('public-key'),
  authenticatorAttachment: Type.Optional(Type.Union([Type.String({ maxLength: 50 }), Type.Null()])),
  clientExtensionResults: Type.Optional(Type.Object({}, { maxProperties: 20 })),
}

const Assertion = Type.Object(
  {
    ...ofCredential,
    response: Type.Object(
      {
        clientDataJSON: base64url(4_096),
        authenticatorData: base64url(4_096),
        signature: base64url(2_048),
        userHandle: Type.Optional(Type.Union([base64url(128), Type.Null()])),
      },
      strict,
    ),
  },
  { title: 'PasskeyAssertion', examples: [EXAMPLE_ASSERTION], ...strict },
)

const Attestation = Type.Object(
  {
    ...ofCredential,
    response: Type.Object(
      {
        clientDataJSON: base64url(4_096),
        attestationObject: base64url(8_192),
        transports: Type.Optional(Type.Array(Type.String({ maxLength: 50 }), { maxItems: 10 })),
        authenticatorData: Type.Optional(base64url(4_096)),
        publicKey: Type.Optional(Type.Union([base64url(2_048), Type.Null()])),
        publicKeyAlgorithm: Type.Optional(Type.Integer({ minimum: -70_000, maximum: 70_000 })),
      },
      strict,
    ),
  },
  { title: 'PasskeyAttestation', examples: [EXAMPLE_ATTESTATION], ...strict },
)

/** The assertion for `@simplewebauthn/server`, without unknown browser extras. */
export function asAssertion({ clientExtensionResults = {}, ...given }: Type.Static<typeof Assertion>): AuthenticationResponseJSON {
  const { userHandle, ...response } = given.response
  const { id, rawId, type } = given
  return {
    ...{ id, rawId, type },
    clientExtensionResults,
    response: { ...response, ...(userHandle === undefined || userHandle === null ? {} : { userHandle }) },
  }
}

export function asAttestation({ clientExtensionResults = {}, ...given }: Type.Static<typeof Attestation>): RegistrationResponseJSON {
  const { clientDataJSON, attestationObject, transports = [] } = given.response
  const { id, rawId, type } = given
  return { ...{ id, rawId, type }, clientExtensionResults, response: { clientDataJSON, attestationObject, transports } }
}

/** The body of a proof, with the passkey's answer in the library's form. */
export function asProof<T extends { passkey?: Type.Static<typeof Assertion> }>({ passkey, ...proof }: T) {
  return { ...proof, ...(passkey === undefined ? {} : { passkey: asAssertion(passkey) }) }
}

const TotpCode = Type.String({
  pattern: TOTP_PATTERN,
  maxLength: 6,
  'x-input': 'code',
  'x-must': 'be the six digits of the authenticator app',
  description: 'The six digits of the authenticator app, with or without blanks.',
})
const proofs = {
  totp_code: Type.Optional(TotpCode),
  recovery_code: Type.Optional(
    Type.String({ minLength: 1, maxLength: 40, 'x-input': 'code', description: 'Upper or lower case, with or without dashes and blanks.' }),
  ),
  passkey: Type.Optional(Assertion),
}

export const SecondFactorSchema = Type.Object(
  { challenge: Type.String({ maxLength: 100 }), ...proofs },
  { title: 'SecondFactor', minProperties: 2, maxProperties: 2, examples: [EXAMPLE_SECOND_FACTOR], ...strict },
)
export const StepUpSchema = Type.Object(
  { password: Type.Optional(PresentedPassword), ...proofs },
  { title: 'StepUp', minProperties: 1, maxProperties: 1, examples: [{ totp_code: EXAMPLE_SECOND_FACTOR.totp_code }], ...strict },
)
export const PasskeySignIn = Type.Object(
  { passkey: Assertion },
  { title: 'PasskeySignIn', examples: [{ passkey: EXAMPLE_ASSERTION }], ...strict },
)
const PasskeyName = Type.String({ ...Name, maxLength: 100, description: 'A name for the list of passkeys, on one line.' })
export const NewPasskey = Type.Object(
  { name: PasskeyName, passkey: Attestation },
  { title: 'NewPasskey', examples: [{ name: EXAMPLE_PASSKEY.name, passkey: EXAMPLE_ATTESTATION }], ...strict },
)
export const PasskeyChange = Type.Object({ name: PasskeyName }, { title: 'PasskeyChange', examples: [{ name: 'Work laptop' }], ...strict })
export const TotpConfirmation = Type.Object(
  { totp_code: TotpCode },
  { title: 'TotpConfirmation', examples: [{ totp_code: EXAMPLE_SECOND_FACTOR.totp_code }], ...strict },
)

const ExpiresIn = Type.Integer({ description: 'The lifetime of the challenge in seconds.' })
/** Data that WebAuthn defines and the store passes to the browser unread. */
const forBrowser = (description: string) => Type.Unsafe<object>({ type: 'object', additionalProperties: true, description })

const RequestOptions = forBrowser('For `PublicKeyCredential.parseRequestOptionsFromJSON` and `navigator.credentials.get`.')
export const PasskeyRequest = Type.Object(
  { options: RequestOptions, expires_in: ExpiresIn },
  { title: 'PasskeyRequest', examples: [EXAMPLE_PASSKEY_REQUEST] },
)
export const StepUpRequest = Type.Object(
  {
    methods: Type.Array(Type.Enum(['password', ...SECOND_FACTOR_METHODS])),
    passkey_options: Type.Union([RequestOptions, Type.Null()]),
    expires_in: ExpiresIn,
  },
  { title: 'StepUpRequest', examples: [EXAMPLE_STEP_UP_REQUEST] },
)
export const NewPasskeyRequest = Type.Object(
  {
    options: forBrowser('For `PublicKeyCredential.parseCreationOptionsFromJSON` and `navigator.credentials.create`.'),
    expires_in: ExpiresIn,
  },
  { title: 'NewPasskeyRequest', examples: [EXAMPLE_NEW_PASSKEY_REQUEST] },
)
export const TotpSetup = Type.Object(
  {
    secret: Type.String({ description: 'The secret in Base32, for apps that cannot read the QR code. Shown only once.' }),
    uri: Type.String({ description: 'The URI to show as a QR code.' }),
  },
  { title: 'TotpSetup', examples: [EXAMPLE_TOTP_SETUP] },
)

const Time = Type.String({ format: 'date-time' })
export const PasskeySchema = Type.Object(
  { id: Type.String({ format: 'uuid' }), name: Type.String(), created_at: Time, last_used_at: Type.Union([Time, Type.Null()]) },
  { title: 'Passkey', examples: [EXAMPLE_PASSKEY] },
)
const Codes = Type.Array(Type.String(), { description: 'Each code can be used once. The codes are shown only this time.' })
export const RecoveryCodes = Type.Object(
  { recovery_codes: Codes },
  { title: 'RecoveryCodes', examples: [{ recovery_codes: EXAMPLE_RECOVERY_CODES }] },
)
const CodesOrNull = Type.Union([Codes, Type.Null()])
export const TotpConfirmed = Type.Object(
  { recovery_codes: CodesOrNull },
  { title: 'TotpConfirmed', examples: [{ recovery_codes: EXAMPLE_RECOVERY_CODES }] },
)
export const PasskeyAdded = Type.Object(
  { passkey: PasskeySchema, recovery_codes: CodesOrNull },
  { title: 'PasskeyAdded', examples: [{ passkey: EXAMPLE_PASSKEY, recovery_codes: null }] },
)
export const FactorsSchema = Type.Object(
  {
    second_factor_required: Type.Boolean({ description: 'Whether a password alone is not enough to sign in.' }),
    totp: Type.Union([Type.Object({ created_at: Time }), Type.Null()]),
    passkeys: Type.Array(PasskeySchema),
    recovery_codes_left: Type.Integer(),
    authenticated_at: Type.Union([Time, Type.Null()], { description: 'When this session last proved its account.' }),
    authenticated_by: Type.Array(Type.String(), { description: 'The ways in which this session has proven its account.' }),
  },
  { title: 'AuthenticationFactors', examples: [EXAMPLE_FACTORS] },
)
