/** Bodies in the OpenAPI document. A test checks each against its schema. */

export const EXAMPLE_USER = {
  id: '01997a5e-0c41-7b02-8d1e-5f0f6a3c9b11',
  email: 'ada@example.com',
  name: 'Ada Lovelace',
  role: 'customer',
  scopes: [],
  language: 'en',
  created_at: '2026-03-02T09:15:30.000Z',
}

export const EXAMPLE_OPERATOR = {
  id: '01997a5e-0c41-7b02-8d1e-5f0f6a3c9b12',
  email: 'grace@shop.example',
  name: null,
  role: 'warehouse',
  is_email_verified: true,
  is_invited: false,
  has_second_factor: true,
  created_at: '2026-03-02T08:00:00.000Z',
}

export const EXAMPLE_TOKEN_SET = {
  token_type: 'Bearer',
  access_token: 'eyJhbGciOiJFZERTQSIsInR5cCI6ImF0K2p3dCJ9.eyJzdWIiOiIwMTk5N2E1ZSJ9.c2lnbmF0dXJl',
  expires_in: 900,
  refresh_token: 'pVz0m7f3vNnG8r0cXq5kqkC4n2iT1mJwYb9Zs6uQe8A',
  refresh_expires_in: 2_592_000,
}

export const EXAMPLE_LOGIN_RESULT = { user: EXAMPLE_USER, ...EXAMPLE_TOKEN_SET }
export const EXAMPLE_CREDENTIALS = { email: EXAMPLE_USER.email, password: 'correct horse battery' }
export const EXAMPLE_REGISTRATION = { ...EXAMPLE_CREDENTIALS, name: EXAMPLE_USER.name, language: EXAMPLE_USER.language }
export const EXAMPLE_REFRESH_REQUEST = { refresh_token: EXAMPLE_TOKEN_SET.refresh_token }
export const EXAMPLE_ONE_TIME_TOKEN = { token: 'kq3Jv5mB1w0dT8sYx6nR2zPq4uLc7eHa9fGi0oKl1Mn', password: EXAMPLE_CREDENTIALS.password }

export const EXAMPLE_PROVIDER_LIST = { data: [{ id: 'acme', name: 'Acme', issuer: 'https://id.acme.example' }] }
export const EXAMPLE_ACCOUNT = {
  ...EXAMPLE_USER,
  sign_ins: [{ issuer: 'https://id.acme.example', linked_at: '2026-03-02T09:15:30.000Z' }],
  is_email_verified: true,
  pending_email: null,
}
export const EXAMPLE_OIDC_CODE = {
  code: EXAMPLE_ONE_TIME_TOKEN.token,
  code_verifier: 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk',
}

export const EXAMPLE_SESSION = {
  id: '01997a5e-0c44-7f60-9c7a-2a1d4f6b8e03',
  created_at: '2026-03-02T09:15:30.000Z',
  last_used_at: '2026-03-04T18:02:11.000Z',
  user_agent: 'Mozilla/5.0',
  current: true,
}

export const EXAMPLE_KEY_SET = {
  keys: [{ kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo', kid: '01997a5e-0001', use: 'sig', alg: 'EdDSA' }],
}

export const EXAMPLE_API_KEY = {
  id: '01997a5e-1d20-7c4b-8a52-6e0f9b7d3c21',
  name: 'Warehouse scanner',
  state: 'active',
  scopes: ['orders:read', 'stock:write'],
  created_by: EXAMPLE_USER.id,
  created_at: '2026-03-02T09:15:30.000Z',
  expires_at: '2027-03-02T00:00:00.000Z',
  last_used_at: '2026-03-04T18:02:11.000Z',
  previous_secret_expires_at: null,
  revoked_at: null,
  revoked_reason: null,
}

/** An invalid key: its checksum is wrong, so scanners do not report it. */
export const EXAMPLE_NEW_API_KEY = {
  ...EXAMPLE_API_KEY,
  last_used_at: null,
  key: 'storefront_key_01997a5e1d207c4b8a526e0f9b7d3c21_EXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEE_000000',
}

export const EXAMPLE_API_KEY_INPUT = {
  name: EXAMPLE_API_KEY.name,
  scopes: EXAMPLE_API_KEY.scopes,
  expires_at: EXAMPLE_API_KEY.expires_at,
}
