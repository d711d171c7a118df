-- One-time tokens for setting a forgotten password.
create table password_resets (
  -- SHA-256 of the token that was mailed.
  token_hash bytea primary key,
  -- No foreign key: an address without an account makes a row too, under a made-up id, so that it takes as long to answer.
  user_id uuid not null,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null
);
create index password_resets_user_id_idx on password_resets (user_id);
create index password_resets_expires_at_idx on password_resets (expires_at);

-- Accounts to be: with EMAIL_VERIFICATION=required an account is made when its address has been proven. Each try to register
-- keeps its own password, so nobody can put theirs under an address that somebody else then proves.
create table pending_registrations (
  token_hash bytea primary key,
  email text not null,
  name text,
  password_hash text not null,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null
);
create index pending_registrations_email_idx on pending_registrations (email);
create index pending_registrations_expires_at_idx on pending_registrations (expires_at);

-- Addresses are stored in one form only, see auth/email-address.ts. A row typed in another could never log in.
alter table users add constraint users_email_canonical check (email = lower(email collate "C"));
