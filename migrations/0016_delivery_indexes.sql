-- no transaction
-- functions: c332d127bccd094d
create index concurrently if not exists email_deliveries_receiver_due_at_idx on email_deliveries (receiver, due_at) where status = 'queued';

create index concurrently if not exists webhook_deliveries_endpoint_id_due_at_idx on webhook_deliveries (endpoint_id, due_at) where status = 'queued';

alter table email_deliveries validate constraint email_deliveries_queued_with_receiver;
