-- no transaction
-- functions: c332d127bccd094d
-- What was written when the database's clock was ahead is found without reading the queue. A take does not change the
-- column.
create index concurrently if not exists email_deliveries_due_set_at_idx on email_deliveries (due_set_at) where status = 'queued';

create index concurrently if not exists webhook_deliveries_due_set_at_idx on webhook_deliveries (due_set_at) where status = 'queued';

create index concurrently if not exists account_mails_due_set_at_idx on account_mails (due_set_at);

create index concurrently if not exists cache_purges_due_set_at_idx on cache_purges (due_set_at);
