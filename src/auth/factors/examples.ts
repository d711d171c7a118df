/** Bodies in the OpenAPI document. A test checks each against its schema. */

const CHALLENGE = 'Vq0cXq5kqkC4n2iT1mJwYb9Zs6uQe8ApVz0m7f3vNnG'
const CREDENTIAL_ID = 'kq3Jv5mB1w0dT8sYx6nR2zPq4uLc7eHa'

export const EXAMPLE_ASSERTION = {
  id: CREDENTIAL_ID,
  rawId: CREDENTIAL_ID,
  type: 'public-key',
  response: {
    clientDataJSON: 'eyJ0eXBlIjoid2ViYXV0aG4uZ2V0In0',
    authenticatorData: 'SZYN5YgOjGh0NBcPZHZgW4_krrmihjLHmVzzuoMdl2MFAAAAAQ',
    signature: 'MEUCIQDx2cJ1uQ',
    userHandle: 'AZl6XgxBewKNHl8Pajyb',
  },
  clientExtensionResults: {},
}

export const EXAMPLE_ATTESTATION = {
  id: CREDENTIAL_ID,
  rawId: CREDENTIAL_ID,
  type: 'public-key',
  response: {
    clientDataJSON: 'eyJ0eXBlIjoid2ViYXV0aG4uY3JlYXRlIn0',
    attestationObject: 'o2NmbXRkbm9uZWdhdHRTdG10oGhhdXRoRGF0YVg',
    transports: ['internal'],
  },
  clientExtensionResults: {},
}

export const EXAMPLE_PASSKEY_REQUEST = {
  options: { challenge: CHALLENGE, rpId: 'shop.example', timeout: 300_000, userVerification: 'required' },
  expires_in: 300,
}

export const EXAMPLE_STEP_UP_REQUEST = {
  methods: ['passkey', 'totp', 'recovery_code'],
  passkey_options: EXAMPLE_PASSKEY_REQUEST.options,
  expires_in: 300,
}

export const EXAMPLE_NEW_PASSKEY_REQUEST = {
  options: {
    rp: { id: 'shop.example', name: 'shop.example' },
    user: { id: 'AZl6XgxBewKNHl8Pajyb', name: 'ada@example.com', displayName: 'Ada Lovelace' },
    challenge: CHALLENGE,
    pubKeyCredParams: [{ type: 'public-key', alg: -8 }],
  },
  expires_in: 300,
}

export const EXAMPLE_PASSKEY = {
  id: '01997a5e-0c4a-7c11-8b2d-4e6f8a0c2b1d',
  name: 'Phone',
  created_at: '2026-03-02T09:20:00.000Z',
  last_used_at: '2026-03-04T18:02:11.000Z',
}

export const EXAMPLE_RECOVERY_CODES = ['MZXW-6YTB-OI5D-K2QA', 'GEZD-GNBV-GY3T-QOJQ']

export const EXAMPLE_FACTORS = {
  second_factor_required: true,
  totp: { created_at: '2026-03-02T09:18:00.000Z' },
  passkeys: [EXAMPLE_PASSKEY],
  recovery_codes_left: 9,
  authenticated_at: '2026-03-04T18:02:11.000Z',
  authenticated_by: ['password', 'totp'],
}

export const EXAMPLE_TOTP_SETUP = {
  secret: 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ',
  uri: 'otpauth://totp/shop.example:ada%40example.com?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=shop.example&algorithm=SHA1&digits=6&period=30',
}

export const EXAMPLE_SECOND_FACTOR = { challenge: CHALLENGE, totp_code: '492039' }
