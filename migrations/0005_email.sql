-- One row per mail: the answer to "did the mail go out?".
create table email_deliveries (
  event_id text primary key,
  order_id uuid not null,
  user_id uuid not null,
  event_type text not null,
  status text not null,
  attempts integer not null default 0,
  last_error text,
  queued_at timestamptz(3) not null default now(),
  sent_at timestamptz(3),
  constraint email_deliveries_status_known check (status in ('queued', 'sent', 'failed'))
);
create index email_deliveries_order_id_idx on email_deliveries (order_id);
create index email_deliveries_status_queued_at_idx on email_deliveries (status, queued_at);
