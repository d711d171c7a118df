-- Sessions that ended before their time, for as long as an access token of theirs could still be shown. Every API process
-- reads its news a few times a second, so that no request has to ask the database; see auth/tokens/revocations.ts.
create table session_revocations (
  session_id uuid primary key,
  -- Readers ask for what may have been committed since their last look. No sequence could tell: 8 may commit before 7.
  transaction_id xid8 not null default pg_current_xact_id(),
  revoked_at timestamptz(3) not null default now()
);
create index session_revocations_transaction_id_idx on session_revocations (transaction_id);
create index session_revocations_revoked_at_idx on session_revocations (revoked_at);

-- Triggers, so that nothing that ends a session can forget it: a deleted account, a statement typed by an operator.
create function record_session_revocation() returns trigger language plpgsql as $$
begin
  insert into session_revocations (session_id) values (old.id) on conflict do nothing;
  return null;
end
$$;
create trigger sessions_revoked after update of revoked_at on sessions
  for each row when (old.revoked_at is null and new.revoked_at is not null) execute function record_session_revocation();
create trigger sessions_deleted after delete on sessions
  for each row when (old.revoked_at is null) execute function record_session_revocation();

-- Access tokens carry the role: with another role come other tokens.
create function revoke_sessions_of_changed_role() returns trigger language plpgsql as $$
begin
  update sessions set revoked_at = now() where user_id = new.id and revoked_at is null;
  return null;
end
$$;
create trigger users_role_changed after update of role on users
  for each row when (old.role is distinct from new.role) execute function revoke_sessions_of_changed_role();

-- The successor is erased once it can no longer be asked for; only then is a stolen token plus a stolen backup worth nothing.
alter table refresh_tokens drop constraint refresh_tokens_rotated_whole;
alter table refresh_tokens add constraint refresh_tokens_successor_of_rotated check (rotated_at is not null or sealed_successor is null);
create index refresh_tokens_expires_at_idx on refresh_tokens (expires_at);
