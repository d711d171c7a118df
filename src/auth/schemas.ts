import { type Static, Type } from 'typebox'
import { ACCOUNT_ROLES, ROLE_SCOPES, SCOPE_NAMES } from '../http/scopes.ts'
import { LANGUAGES } from '../language.ts'
import { EMAIL_MAX_LENGTH, EMAIL_PATTERN } from './email-address.ts'
import { EXAMPLE_ACCOUNT, EXAMPLE_LOGIN_RESULT, EXAMPLE_SESSION, EXAMPLE_TOKEN_SET, EXAMPLE_USER } from './examples.ts'
import { PASSWORD_MAX_LENGTH, PASSWORD_MIN_LENGTH } from './passwords/password.ts'
import type { User } from './users.ts'

export const ChosenLanguage = Type.Enum([...LANGUAGES], {
  description: 'The language of mails to this account, and of the amounts in them.',
})

export const UserSchema = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    email: Type.String(),
    name: Type.Union([Type.String(), Type.Null()]),
    role: Type.Enum([...ACCOUNT_ROLES]),
    scopes: Type.Array(Type.Enum([...SCOPE_NAMES]), {
      description: 'The scopes of the role. Every account may also do what needs no scope.',
    }),
    language: Type.Union([ChosenLanguage, Type.Null()], {
      description: "The language of mails. Null if the account has chosen none: the store's language then applies.",
    }),
    created_at: Type.String({ format: 'date-time' }),
  },
  { title: 'User', examples: [EXAMPLE_USER] },
)

export const LinkedSignInSchema = Type.Object(
  { issuer: Type.String(), linked_at: Type.String({ format: 'date-time' }) },
  { title: 'LinkedSignIn', examples: EXAMPLE_ACCOUNT.sign_ins },
)

export const AccountSchema = Type.Object(
  {
    ...UserSchema.properties,
    sign_ins: Type.Array(LinkedSignInSchema, {
      description: 'The providers with which the account can sign in. `GET /auth/oidc` lists their names.',
    }),
    is_email_verified: Type.Boolean({
      description: 'Whether a mailed token or a provider has proven the address. `POST /me/email/proof` mails a token.',
    }),
    pending_email: Type.Union([Type.String(), Type.Null()], {
      description: 'The new address that was sent to `POST /me/email` and is not confirmed yet.',
    }),
  },
  { title: 'Account', examples: [EXAMPLE_ACCOUNT] },
)

const tokenSet = {
  token_type: Type.Literal('Bearer'),
  access_token: Type.String({ description: 'JWT (RFC 9068), for `Authorization: Bearer`.' }),
  expires_in: Type.Integer({ description: 'The lifetime of the access token in seconds.' }),
  refresh_token: Type.String({ description: 'An opaque text that is valid for one refresh.' }),
  refresh_expires_in: Type.Integer({ description: 'The lifetime of the refresh token in seconds.' }),
}
/** RFC 6749 §5.1 defines these names, except `refresh_expires_in`. */
export const TokenSetSchema = Type.Object(tokenSet, { title: 'TokenSet', examples: [EXAMPLE_TOKEN_SET] })
export type TokenSet = Static<typeof TokenSetSchema>
export type LoginResult = TokenSet & { user: User }
export const LoggedIn = Type.Object({ user: UserSchema, ...tokenSet }, { title: 'LoginResult', examples: [EXAMPLE_LOGIN_RESULT] })

export const SessionSchema = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    created_at: Type.String({ format: 'date-time' }),
    last_used_at: Type.String({ format: 'date-time', description: 'When the session was last opened or refreshed.' }),
    user_agent: Type.Union([Type.String(), Type.Null()]),
    current: Type.Boolean({ description: 'Whether this request was sent in the session.' }),
  },
  { title: 'Session', examples: [EXAMPLE_SESSION] },
)
export type SessionView = Static<typeof SessionSchema>

/** An answer that reveals nothing about the address in the request. */
export const Accepted = Type.Object({ status: Type.Literal('accepted') }, { title: 'Accepted', examples: [{ status: 'accepted' }] })

export const strict = { additionalProperties: false }

/** An address that mail may be sent to. */
export const Email = Type.String({
  maxLength: EMAIL_MAX_LENGTH,
  pattern: EMAIL_PATTERN,
  'x-input': 'pasted',
  'x-must': 'be one plain e-mail address, such as ada@example.com',
  description: 'One address without a display name. It is stored in lower case, with its domain in ASCII (IDNA).',
})

export const NewPassword = Type.String({ minLength: PASSWORD_MIN_LENGTH, maxLength: PASSWORD_MAX_LENGTH, 'x-input': 'verbatim' })

/** A password that is only compared. It has no lower bound, so every wrong password gets the same answer. */
export const PresentedPassword = Type.String({ maxLength: PASSWORD_MAX_LENGTH, 'x-input': 'verbatim' })

/** One line of visible text. `assertNoLink` also refuses links. */
export const Name = Type.String({
  minLength: 1,
  maxLength: 200,
  pattern: '^[^\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]+$',
  'x-must': 'be one line of text',
  description: 'Must not contain a link until the address of the account is proven.',
})

/** Any text is valid, so unknown tokens of every form get the same answer. The body's limit bounds the length. */
export const Token = Type.String()

/** A sign-in's answer: the account, and its opened session. */
export function presentSignIn<Opened extends { user: User }>(opened: Opened) {
  return { ...opened, user: presentUser(opened.user) }
}

export function presentUser({ id, email, name, role, language, created_at }: User) {
  return { id, email, name, role, scopes: [...ROLE_SCOPES[role]], language, created_at: created_at.toISOString() }
}
