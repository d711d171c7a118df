-- Triggers record every way of ending a session, also a deleted account and a statement that an operator types.
create or replace function record_session_revocation() returns trigger language plpgsql as $$
begin
  insert into session_revocations (session_id, last_issued_at) values (old.id, old.last_used_at) on conflict do nothing;
  return null;
end
$$;

-- Access tokens contain the role: a change of the role ends the sessions.
create or replace function revoke_sessions_of_changed_role() returns trigger language plpgsql as $$
begin
  update sessions set revoked_at = now() where user_id = new.id and revoked_at is null;
  return null;
end
$$;
