/** Bodies that the OpenAPI document shows. A test checks each against its schema. */

export const EXAMPLE_USER = {
  id: '01997a5e-0c41-7b02-8d1e-5f0f6a3c9b11',
  email: 'ada@example.com',
  name: 'Ada Lovelace',
  role: 'customer',
  created_at: '2026-03-02T09:15:30.000Z',
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
export const EXAMPLE_REGISTRATION = { ...EXAMPLE_CREDENTIALS, name: EXAMPLE_USER.name }
export const EXAMPLE_REFRESH_REQUEST = { refresh_token: EXAMPLE_TOKEN_SET.refresh_token }
export const EXAMPLE_ONE_TIME_TOKEN = { token: 'kq3Jv5mB1w0dT8sYx6nR2zPq4uLc7eHa9fGi0oKl1Mn', password: EXAMPLE_CREDENTIALS.password }

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
