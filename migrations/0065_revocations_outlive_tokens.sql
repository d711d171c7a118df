-- A revocation is kept until the session's newest access token has expired by any clock: one that was ahead issued tokens that are accepted
-- later than twenty minutes after their logout. See docs/decisions/0150-clocks-and-tokens.md. Null: recorded by the release before.
alter table session_revocations add column last_issued_at timestamptz(3);

create or replace function record_session_revocation() returns trigger language plpgsql as $$
begin
  -- With each token that a session issues, its last_used_at is at least the time in the token.
  insert into session_revocations (session_id, last_issued_at) values (old.id, old.last_used_at) on conflict do nothing;
  return null;
end
$$;
