-- Accounts. A guest is an account without a password: anybody who types an address orders with the session that POST /auth/guest opens, and only
-- with that. See docs/decisions/auth-guests.md.
create table users (
  id uuid primary key,
  -- Stored in one form only: see auth/email-address.ts.
  email text not null,
  -- When the holder of the mailbox proved the address with a mailed token. Null: anybody may have typed it, and mails then contain
  -- nothing of what the account says. See docs/decisions/auth-accounts.md#unproven-addresses.
  email_verified_at timestamptz(3),
  name text,
  role text not null default 'customer',
  -- PHC string: see auth/passwords/password.ts. Null: a guest, or an account that a provider's sign-in has created.
  password_hash text,
  created_at timestamptz(3) not null default now(),
  -- The account that has proven the guest's address, and has its orders since. Orders keep the guest's id: events have it. Erasing the
  -- account erases the guest.
  owner_id uuid,
  -- When housekeeping deletes a guest that has ordered nothing. Null: it has ordered, or is no guest.
  guest_expires_at timestamptz(3),
  -- A blocked account cannot open a session; its orders stay as they are.
  blocked_at timestamptz(3),
  -- For operators. Here and not in `activities`, so that it is erased with the account.
  blocked_reason text,
  -- Null: the account has chosen none and follows DEFAULT_LANGUAGE, whatever it is when a mail is sent.
  language text,
  -- An address that somebody typed in capitals in SQL could never log in.
  constraint users_email_canonical check (email = lower(email collate "C")),
  -- What each role may do is in http/scopes.ts.
  constraint users_role_known check (role in ('customer', 'guest', 'support', 'warehouse', 'catalogue', 'analyst', 'admin')),
  constraint users_owner_exists foreign key (owner_id) references users (id) on delete cascade,
  -- A login asks for any account with the address that is no guest: a guest with a password would be one that no login finds.
  constraint users_guest_has_no_password check (role <> 'guest' or password_hash is null),
  -- An account with a password never belongs to another one.
  constraint users_owned_is_guest check (owner_id is null or role = 'guest'),
  constraint users_blocked_with_reason check ((blocked_at is null) = (blocked_reason is null)),
  -- The languages that src/language.ts ships: a mail of another one could not be rendered.
  constraint users_language_known check (language in ('en', 'de', 'fr', 'es'))
);
-- Any number of guests may have one address, also that of an account: creating one reads no other row, so nothing shows whether there is one.
-- Named as a constraint, because the API's error is found by this name.
create unique index users_email_unique on users (email) where role <> 'guest';
create index users_guest_email_created_at_idx on users (email, created_at desc) where role = 'guest';
create index users_owner_id_idx on users (owner_id) where owner_id is not null;
create index users_guest_expires_at_idx on users (guest_expires_at) where guest_expires_at is not null;
-- Operators search by the beginning of an address, and page through what begins with it. By bytes: a prefix is a range only in this order.
create index users_email_bytes_id_idx on users ((email collate "C"), id);
-- Hashes of other systems, until the next login replaces them by argon2id. A failed login reads one, so that every failed login costs the same.
create index users_foreign_password_hash_idx on users (id) where password_hash not like '$argon2id$v=19$m=19456,t=2,p=1$%';
-- The few operators among many customers.
create index users_operators_idx on users (id) where role not in ('customer', 'guest');
create trigger users_role_changed after update of role on users
  for each row when (old.role is distinct from new.role) execute function revoke_sessions_of_changed_role();
create trigger users_deleted after delete on users for each row execute function record_deleted_account();
create trigger users_deleted_api_keys after delete on users for each row execute function revoke_api_keys_of_account();
create trigger users_demoted_api_keys after update of role on users
  for each row when (old.role is distinct from new.role and new.role in ('customer', 'guest')) execute function revoke_api_keys_of_account();
create trigger users_role_changed_api_keys after update of role on users
  for each row when (old.role is distinct from new.role and new.role not in ('customer', 'guest')) execute function reread_api_keys_of_account();
create trigger users_admin_demoted before update of role on users
  for each row when (old.role = 'admin' and new.role <> 'admin') execute function keep_an_admin();
create trigger users_admin_deleted before delete on users for each row when (old.role = 'admin') execute function keep_an_admin();
-- A trigger, so that every way of blocking ends the sessions in every process: also a statement typed by an operator.
create trigger users_blocked after update of blocked_at on users
  for each row when (old.blocked_at is null and new.blocked_at is not null) execute function revoke_sessions_of_changed_role();
create trigger users_email_reserved after insert or update of email on users
  for each row when (new.role <> 'guest') execute function refuse_reserved_email();

-- One row per login: the family of its refresh tokens, and the `sid` of its access tokens.
create table sessions (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  user_agent text,
  created_at timestamptz(3) not null default now(),
  last_used_at timestamptz(3) not null default now(),
  -- The absolute end: no rotation extends it.
  expires_at timestamptz(3) not null,
  revoked_at timestamptz(3),
  -- The last proof of who is at the session.
  authenticated_at timestamptz(3),
  -- `password`, `passkey`, `totp`, `recovery_code`, or what another way of signing in is called: all that the session has proven.
  authenticated_by text[] not null default '{}'
);
create index sessions_user_id_idx on sessions (user_id);
-- The sessions that are to be deleted, by each of the three reasons.
create index sessions_expires_at_idx on sessions (expires_at);
create index sessions_last_used_at_idx on sessions (last_used_at);
create index sessions_revoked_at_idx on sessions (revoked_at) where revoked_at is not null;
create trigger sessions_revoked after update of revoked_at on sessions
  for each row when (old.revoked_at is null and new.revoked_at is not null) execute function record_session_revocation();
create trigger sessions_deleted after delete on sessions
  for each row when (old.revoked_at is null) execute function record_session_revocation();

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
  -- See docs/decisions/auth-tokens.md#clocks-that-step.
  last_issued_at timestamptz(3) not null
);
create index session_revocations_transaction_id_idx on session_revocations (transaction_id);
create index session_revocations_revoked_at_idx on session_revocations (revoked_at);

-- Keys are published before they sign: see docs/decisions/auth-tokens.md#keys.
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
-- until the first of them has started. See docs/decisions/auth-tokens.md#issuer.
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
  expires_at timestamptz(3) not null,
  -- The address that the token was mailed to: only a token of the account's present address proves it.
  sent_to text
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
  expires_at timestamptz(3) not null,
  -- The language of the registration, for the account that its token creates.
  language text,
  constraint pending_registrations_language_known check (language in ('en', 'de', 'fr', 'es'))
);
create index pending_registrations_email_idx on pending_registrations (email);
create index pending_registrations_expires_at_idx on pending_registrations (expires_at);

-- Deleted accounts whose orders may contain an address, a phone number or a note that the law requires to keep for a time. They are erased
-- after that time, and then the row is deleted too. See docs/decisions/customers.md#erasure.
create table deleted_accounts (
  user_id uuid primary key,
  deleted_at timestamptz(3) not null default now(),
  -- The oldest last change among its orders that still contain something: none of them is due before that is old enough.
  oldest_change_at timestamptz(3) not null default '-infinity'
);
create index deleted_accounts_oldest_change_at_idx on deleted_accounts (oldest_change_at);

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

-- Keys with which machines call the API: see docs/decisions/auth-access.md#api-keys.
create table api_keys (
  -- In the key's text too, so that a key is found without its secret.
  id uuid primary key,
  name text not null,
  scopes text[] not null,
  -- SHA-256 of 256 random bits: a reader of this table cannot call the API with it.
  secret_hash bytea not null,
  -- The secret before the last rotation, which stays valid until then.
  previous_secret_hash bytea,
  previous_expires_at timestamptz(3),
  -- The operator's account; null for a key made by a command. No foreign key: the key outlives the account, revoked.
  created_by uuid,
  created_at timestamptz(3) not null default now(),
  -- Null: it does not expire.
  expires_at timestamptz(3),
  -- Written at most once a minute.
  last_used_at timestamptz(3),
  revoked_at timestamptz(3),
  revoked_reason text,
  -- The last change. As in session_revocations: every process of the API reads changes a few times a second.
  transaction_id xid8 not null default pg_current_xact_id(),
  constraint api_keys_name_length check (char_length(name) between 1 and 100),
  constraint api_keys_scopes_some check (cardinality(scopes) between 1 and 100),
  -- A stolen key must not be able to make others that outlive it.
  constraint api_keys_scopes_without_access check (not 'access:write' = any (scopes)),
  constraint api_keys_hashes_sha256 check (octet_length(secret_hash) = 32 and octet_length(previous_secret_hash) = 32),
  constraint api_keys_previous_whole check ((previous_secret_hash is null) = (previous_expires_at is null)),
  constraint api_keys_revoked_whole check ((revoked_at is null) = (revoked_reason is null)),
  constraint api_keys_revoked_reason_known check (revoked_reason in ('revoked', 'maker_deleted', 'maker_demoted'))
);
create index api_keys_transaction_id_idx on api_keys (transaction_id);
create index api_keys_created_by_idx on api_keys (created_by);
create trigger api_keys_changed
  before update of scopes, secret_hash, previous_secret_hash, previous_expires_at, created_by, expires_at, revoked_at on api_keys
  for each row execute function mark_changed_api_key();
create trigger api_keys_deleted before delete on api_keys for each row execute function refuse_deletion_of_api_key();

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
  -- How an account was proven before its second factor is asked for, such as by a password or a provider; null for other challenges.
  proven_by text,
  constraint auth_challenges_purpose_known check (purpose in ('second_factor', 'passkey_sign_in', 'passkey_registration', 'step_up')),
  -- A challenge of nobody could be answered by anybody: only a passkey says itself whose it is.
  constraint auth_challenges_bound check ((user_id is null) = (purpose = 'passkey_sign_in')),
  constraint auth_challenges_proven_before check (proven_by is null or purpose = 'second_factor')
);
create index auth_challenges_user_id_idx on auth_challenges (user_id);
create index auth_challenges_session_id_idx on auth_challenges (session_id);
create index auth_challenges_expires_at_idx on auth_challenges (expires_at);

-- Accounts of OpenID providers with which a customer signs in. An address never identifies one: see
-- docs/decisions/auth-providers.md.
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
  user_id uuid references users (id) on delete cascade,
  code_challenge text not null,
  expires_at timestamptz(3) not null,
  issuer text,
  subject text,
  -- A code is either for the session of an account, or for linking a person at a provider to the account of the session that presents it.
  constraint oidc_codes_of_account_or_person check ((user_id is null) = (issuer is not null) and (issuer is null) = (subject is null))
);
create index oidc_codes_user_id_idx on oidc_codes (user_id);
create index oidc_codes_expires_at_idx on oidc_codes (expires_at);

-- Changes of the e-mail addresses of accounts: see docs/decisions/auth-addresses.md#the-change.
create table email_changes (
  id bigint generated always as identity primary key,
  user_id uuid not null,
  -- The address of the account when the change was asked for, and since when it was proven.
  old_email text not null,
  old_email_verified_at timestamptz(3),
  -- Stored as `users.email`.
  new_email text not null,
  -- SHA-256 of the token that was mailed to the new address. Null: the change was made, or cannot be made any more.
  confirm_token_hash bytea,
  -- SHA-256 of the tokens that were mailed to the old address, when the change was asked for and when it was made. Each of them reverts it.
  notice_token_hash bytea not null,
  revert_token_hash bytea,
  requested_at timestamptz(3) not null,
  -- When the account got another address. Also of requests that another one had replaced by then: their notices revert it too.
  changed_at timestamptz(3),
  -- Of the request; of reverting once the change is made. Until then nobody else can have the old address.
  expires_at timestamptz(3) not null,
  constraint email_changes_user_exists foreign key (user_id) references users (id) on delete cascade,
  constraint email_changes_confirm_token_unique unique (confirm_token_hash),
  constraint email_changes_notice_token_unique unique (notice_token_hash),
  constraint email_changes_revert_token_unique unique (revert_token_hash),
  constraint email_changes_made_once check (changed_at is null or confirm_token_hash is null)
);
create index email_changes_user_id_idx on email_changes (user_id);
create index email_changes_old_email_idx on email_changes (old_email) where changed_at is not null;
create index email_changes_expires_at_idx on email_changes (expires_at);
