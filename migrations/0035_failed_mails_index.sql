-- no transaction
-- functions: 0dda5f677fdfdafb
create index concurrently if not exists email_deliveries_not_received_idx on email_deliveries (greatest(failed_at, bounced_at))
  where status = 'failed' or bounced_at is not null;
