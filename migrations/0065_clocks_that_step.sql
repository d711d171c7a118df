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

-- Lists of orders go by number, which ascends whatever a clock does: see docs/decisions/0151-orders-are-listed-by-number.md. The release
-- before, which lists by time, sorts one customer's orders meanwhile.
create index orders_user_id_number_idx on orders (user_id, number desc);
create index orders_user_id_status_number_idx on orders (user_id, status, number desc);
create index orders_status_number_idx on orders (status, number desc);
-- Pending orders that expire, the oldest first.
create index orders_pending_created_at_id_idx on orders (created_at, id) where status = 'pending';
drop index orders_user_id_created_at_id_idx, orders_user_id_status_created_at_id_idx, orders_status_created_at_id_idx;
