-- Passkeys, authenticator apps, recovery codes, and the challenges that ask for them: see docs/decisions/0211-second-factors.md.

alter table sessions
  -- The last proof of who is at the session. Null: a session of an earlier release, whose proof counts as old.
  add column authenticated_at timestamptz(3),
  -- `password`, `passkey`, `totp`, `recovery_code`, or what another way of signing in is called: all that the session has proven.
  add column authenticated_by text[] not null default '{}';

-- Whether an admin has a second factor is asked often, and there are few admins among many customers.
create index users_admins_idx on users (id) where role = 'admin';

-- Discoverable credentials of WebAuthn, each of one device or of one keychain.
create table passkeys (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  -- Base64url, as in WebAuthn's JSON.
  credential_id text not null,
  -- COSE (RFC 9052). Public: a reader of this table cannot sign in with it.
  public_key bytea not null,
  -- 0 for authenticators that do not count, which are most.
  sign_count bigint not null,
  -- How the browser reaches the authenticator, such as `internal` or `usb`.
  transports text[] not null,
  -- What its owner calls it.
  name text not null,
  created_at timestamptz(3) not null default now(),
  last_used_at timestamptz(3),
  -- One key for two accounts would make it unknown whose sign-in it is.
  constraint passkeys_credential_id_unique unique (credential_id)
);
create index passkeys_user_id_idx on passkeys (user_id);

-- Authenticator apps (RFC 6238), one for each account.
create table totp_authenticators (
  user_id uuid primary key references users (id) on delete cascade,
  -- AES-256-GCM under a key derived from STOREFRONT_SECRET, base64.
  encrypted_secret text not null,
  created_at timestamptz(3) not null default now(),
  -- Null until a first code has shown that the app has the secret: until then nothing asks for it.
  confirmed_at timestamptz(3),
  -- The time step of the newest code that was accepted: that code and older ones are refused.
  last_step bigint not null default 0
);

create table recovery_codes (
  user_id uuid not null references users (id) on delete cascade,
  -- SHA-256 of the code, which has 80 random bits.
  code_hash bytea not null,
  used_at timestamptz(3),
  constraint recovery_codes_pkey primary key (user_id, code_hash)
);

-- What a caller must answer within minutes, once. The token is WebAuthn's challenge too.
create table auth_challenges (
  -- SHA-256 of the token.
  token_hash bytea primary key,
  purpose text not null,
  -- Null before it is known who signs in with a passkey.
  user_id uuid references users (id) on delete cascade,
  -- The session that asked, of a session's own challenges.
  session_id uuid references sessions (id) on delete cascade,
  -- Answers so far: a wrong code leaves the challenge usable a few times.
  attempts integer not null default 0,
  expires_at timestamptz(3) not null,
  constraint auth_challenges_purpose_known check (purpose in ('second_factor', 'passkey_sign_in', 'passkey_registration', 'step_up')),
  -- A challenge of nobody could be answered by anybody: only a passkey says itself whose it is.
  constraint auth_challenges_bound check ((user_id is null) = (purpose = 'passkey_sign_in'))
);
create index auth_challenges_user_id_idx on auth_challenges (user_id);
create index auth_challenges_session_id_idx on auth_challenges (session_id);
create index auth_challenges_expires_at_idx on auth_challenges (expires_at);
