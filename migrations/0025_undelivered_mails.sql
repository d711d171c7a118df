-- no transaction
-- functions: a336850181d0d5cd
create index concurrently if not exists email_deliveries_undelivered_idx on email_deliveries (queued_at desc, event_id desc)
  where status = 'failed' or bounced_at is not null;
