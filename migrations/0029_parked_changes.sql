-- Changes of orders that no event can be made of: the stream went on without them. The row itself is in orders.
create table parked_changes (
  -- `<order id>.<version>`
  event_id text primary key,
  reason text not null,
  -- Where the change stream stood, see docs/decisions/0043.
  position text not null,
  parked_at timestamptz(3) not null default now()
);
