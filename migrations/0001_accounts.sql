create table users (
  id uuid primary key,
  email text not null,
  name text,
  role text not null default 'customer',
  -- PHC string; see auth/passwords/password.ts
  password_hash text not null,
  created_at timestamptz(3) not null default now(),
  constraint users_email_unique unique (email),
  constraint users_role_known check (role in ('customer', 'admin'))
);

-- One row per login: the family of its refresh tokens, and the `sid` of its access tokens.
create table sessions (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  user_agent text,
  created_at timestamptz(3) not null default now(),
  last_used_at timestamptz(3) not null default now(),
  -- The absolute end: no rotation goes past it.
  expires_at timestamptz(3) not null,
  revoked_at timestamptz(3)
);
create index sessions_user_id_idx on sessions (user_id);

create table refresh_tokens (
  -- SHA-256 of the token: whoever reads this table cannot log in with it.
  token_hash bytea primary key,
  session_id uuid not null references sessions (id) on delete cascade,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  rotated_at timestamptz(3),
  -- The successor, encrypted under a key derived from this token, for a repeat within the grace time.
  sealed_successor bytea,
  constraint refresh_tokens_rotated_whole check ((rotated_at is null) = (sealed_successor is null))
);
create index refresh_tokens_session_id_idx on refresh_tokens (session_id);

create table signing_keys (
  -- RFC 7638 thumbprint of the public key; the `kid` of tokens.
  id text primary key,
  public_key jsonb not null,
  -- AES-256-GCM under a key derived from STOREFRONT_SECRET.
  sealed_private_key bytea not null,
  created_at timestamptz(3) not null default now()
);
