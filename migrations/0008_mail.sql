-- One row per mail: the answer to "did the mail go out?".
create table email_deliveries (
  event_id text primary key,
  order_id uuid not null,
  user_id uuid not null,
  event_type text not null,
  status text not null,
  attempts integer not null default 0,
  last_error text,
  -- What the mail says, until it is sent: a mail that has failed can be retried however late.
  content json,
  -- Counts the jobs made for the mail; only the job with this number may send it.
  job_number integer not null default 1,
  queued_at timestamptz(3) not null default now(),
  -- Not before then: an account has a limit of mails an hour.
  send_after timestamptz(3),
  sent_at timestamptz(3),
  failed_at timestamptz(3),
  constraint email_deliveries_status_known check (status in ('queued', 'sent', 'failed'))
);
create index email_deliveries_order_id_idx on email_deliveries (order_id);
create index email_deliveries_status_queued_at_idx on email_deliveries (status, queued_at);
create index email_deliveries_user_id_send_after_idx on email_deliveries (user_id, send_after);
-- The newest mails of one account among all of its mails.
create index email_deliveries_user_id_status_queued_at_idx
  on email_deliveries (user_id, status, queued_at desc, event_id desc);
