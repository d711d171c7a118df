-- An account that a provider's sign-in has created has no password until a password reset sets one.
alter table users alter column password_hash drop not null;

-- Accounts of OpenID providers with which a customer signs in. An address never identifies one: see docs/decisions/0219-sign-in-with-openid-connect.md.
create table oidc_identities (
  -- `iss` and `sub` of the ID token: together they are the person at the provider, whatever address they have there today.
  issuer text not null,
  subject text not null,
  user_id uuid not null references users (id) on delete cascade,
  linked_at timestamptz(3) not null default now(),
  primary key (issuer, subject),
  -- A second person at the provider who was given the address of the first must not enter the account.
  constraint oidc_identities_one_of_issuer unique (user_id, issuer)
);

-- A browser on its way to a provider and back. Deleted when it comes back, so that an answer of a provider counts once.
create table oidc_sign_ins (
  -- SHA-256 of the token in the browser's cookie. State, nonce and code verifier are derived from the token and stored nowhere.
  token_hash bytea primary key,
  provider text not null,
  -- A page of an allowed origin, checked when the sign-in began.
  return_to text not null,
  -- Of the page's own secret (RFC 7636, S256): only the page that began the sign-in can exchange the code that comes of it.
  code_challenge text not null,
  expires_at timestamptz(3) not null
);
create index oidc_sign_ins_expires_at_idx on oidc_sign_ins (expires_at);

-- Codes that a page exchanges for tokens, once.
create table oidc_codes (
  -- SHA-256 of the code.
  code_hash bytea primary key,
  user_id uuid not null references users (id) on delete cascade,
  code_challenge text not null,
  expires_at timestamptz(3) not null
);
create index oidc_codes_user_id_idx on oidc_codes (user_id);
create index oidc_codes_expires_at_idx on oidc_codes (expires_at);
