create table users (
  id uuid primary key,
  -- Stored in one form only: see auth/email-address.ts.
  email text not null,
  -- When the holder of the mailbox proved the address with a mailed token. Null: anybody may have typed it, and mails then contain
  -- nothing of what the account says. See docs/decisions/0099-mails-to-unproven-addresses.md.
  email_verified_at timestamptz(3),
  name text,
  role text not null default 'customer',
  -- PHC string: see auth/passwords/password.ts.
  password_hash text not null,
  created_at timestamptz(3) not null default now(),
  constraint users_email_unique unique (email),
  -- An address that somebody typed in capitals in SQL could never log in.
  constraint users_email_canonical check (email = lower(email collate "C")),
  constraint users_role_known check (role in ('customer', 'admin'))
);

-- One row per login: the family of its refresh tokens, and the `sid` of its access tokens.
create table sessions (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  user_agent text,
  created_at timestamptz(3) not null default now(),
  last_used_at timestamptz(3) not null default now(),
  -- The absolute end: no rotation extends it.
  expires_at timestamptz(3) not null,
  revoked_at timestamptz(3)
);
create index sessions_user_id_idx on sessions (user_id);

create table refresh_tokens (
  -- SHA-256 of the token: a reader of this table cannot log in with it.
  token_hash bytea primary key,
  session_id uuid not null references sessions (id) on delete cascade,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  rotated_at timestamptz(3),
  -- The next token, encrypted under a key derived from this one, for a repeated request within the grace time. Erased afterwards: only
  -- then is a stolen token together with a stolen backup worth nothing.
  sealed_successor bytea,
  constraint refresh_tokens_successor_of_rotated check (rotated_at is not null or sealed_successor is null)
);
create index refresh_tokens_session_id_idx on refresh_tokens (session_id);
create index refresh_tokens_expires_at_idx on refresh_tokens (expires_at);

-- Sessions that ended early, kept until their newest access token has expired. Every API process polls for new rows a few times a second,
-- so that no request has to ask the database: see auth/tokens/revocations.ts.
create table session_revocations (
  session_id uuid primary key,
  -- Readers ask for what may have been committed since they last asked. A sequence cannot answer that: 8 may commit before 7.
  transaction_id xid8 not null default pg_current_xact_id(),
  revoked_at timestamptz(3) not null default now(),
  -- At least the time in the session's newest token. A clock that was ahead issued tokens that expire later than revoked_at suggests.
  -- See docs/decisions/0150-clocks-and-tokens.md.
  last_issued_at timestamptz(3) not null
);
create index session_revocations_transaction_id_idx on session_revocations (transaction_id);
create index session_revocations_revoked_at_idx on session_revocations (revoked_at);

-- Triggers, so that every way of ending a session records it: also a deleted account and a statement typed by an operator.
create function record_session_revocation() returns trigger language plpgsql as $$
begin
  insert into session_revocations (session_id, last_issued_at) values (old.id, old.last_used_at) on conflict do nothing;
  return null;
end
$$;
create trigger sessions_revoked after update of revoked_at on sessions
  for each row when (old.revoked_at is null and new.revoked_at is not null) execute function record_session_revocation();
create trigger sessions_deleted after delete on sessions
  for each row when (old.revoked_at is null) execute function record_session_revocation();

-- Access tokens contain the role: a change of the role ends the sessions.
create function revoke_sessions_of_changed_role() returns trigger language plpgsql as $$
begin
  update sessions set revoked_at = now() where user_id = new.id and revoked_at is null;
  return null;
end
$$;
create trigger users_role_changed after update of role on users
  for each row when (old.role is distinct from new.role) execute function revoke_sessions_of_changed_role();

-- Keys are published before they sign: see docs/decisions/0100-keys-are-published-before-they-sign.md.
create table signing_keys (
  -- RFC 7638 thumbprint of the public key; the `kid` of tokens.
  id text primary key,
  public_key jsonb not null,
  -- AES-256-GCM under a key derived from STOREFRONT_SECRET. Erased soon after the key has retired.
  sealed_private_key bytea,
  created_at timestamptz(3) not null default now(),
  signs_from timestamptz(3) not null default now(),
  -- Since when the key no longer signs, set in advance by a rotation. It verifies until its last token has expired.
  retired_at timestamptz(3),
  constraint signing_keys_private_until_retired check (retired_at is not null or sealed_private_key is not null)
);

-- The issuer and audience of the store's access tokens. All processes of the API must agree, or they refuse each other's tokens. Empty
-- until the first of them has started. See docs/decisions/0153-one-issuer.md.
create table token_issuers (
  -- One row at most.
  is_current boolean primary key default true,
  issuer text not null,
  changed_at timestamptz(3) not null default now(),
  constraint token_issuers_single_row check (is_current)
);

-- Identifies the secret that encrypts signing keys, webhooks' secrets and queued account mails: a process with another one must encrypt
-- nothing. Empty until a process has encrypted something.
create table encryption_secrets (
  -- One row at most.
  is_current boolean primary key default true,
  -- HKDF-SHA-256 of STOREFRONT_SECRET, base64url: nothing can be decrypted with it.
  fingerprint text not null,
  changed_at timestamptz(3) not null default now(),
  constraint encryption_secrets_single_row check (is_current)
);

-- One-time tokens for setting a forgotten password.
create table password_resets (
  -- SHA-256 of the token that was mailed.
  token_hash bytea primary key,
  -- No foreign key: an address without an account makes a row too, under a random id, so that the answer takes equally long.
  user_id uuid not null,
  expires_at timestamptz(3) not null
);
create index password_resets_user_id_idx on password_resets (user_id);
create index password_resets_expires_at_idx on password_resets (expires_at);

-- With EMAIL_VERIFICATION=required an account is created when its address has been proven. Each attempt to register keeps its own
-- password, so nobody can set theirs for an address that somebody else then proves.
create table pending_registrations (
  -- SHA-256 of the token that was mailed.
  token_hash bytea primary key,
  email text not null,
  name text,
  password_hash text not null,
  expires_at timestamptz(3) not null
);
create index pending_registrations_email_idx on pending_registrations (email);
create index pending_registrations_expires_at_idx on pending_registrations (expires_at);

-- Deleted accounts whose orders may contain an address, a phone number or a note that the law requires to keep for a time. They are erased
-- after that time, and then the row is deleted too. See docs/decisions/0103-what-a-deleted-account-leaves.md.
create table deleted_accounts (
  user_id uuid primary key,
  deleted_at timestamptz(3) not null default now(),
  -- The oldest last change among its orders that still contain something: none of them is due before that is old enough.
  oldest_change_at timestamptz(3) not null default '-infinity'
);
create index deleted_accounts_oldest_change_at_idx on deleted_accounts (oldest_change_at);

-- A trigger, so that every way of deleting an account records it, also a statement typed by an operator.
create function record_deleted_account() returns trigger language plpgsql as $$
begin
  insert into deleted_accounts (user_id) values (old.id) on conflict do nothing;
  return null;
end
$$;
create trigger users_deleted after delete on users for each row execute function record_deleted_account();

-- Counters of the package rate-limiter-flexible, which prescribes the columns and their order. Unlogged: after a crash they start from
-- zero, and they stay out of the WAL and of backups.
create unlogged table rate_limits (
  -- The limit's name and an HMAC of what it counts by: no e-mail or network address.
  key varchar(255) primary key,
  points integer not null default 0,
  -- Milliseconds since 1970.
  expire bigint
);
create index rate_limits_expire_idx on rate_limits (expire);
