-- no transaction
-- Indexes for reads and deletions that walked a whole table to find a few rows.

-- The products that are, or are not, in stock where these are few.
create index concurrently if not exists products_in_stock_created_at_id_idx on products (in_stock, created_at, id) where archived_at is null;

-- The newest mails of one account among all of its mails.
create index concurrently if not exists email_deliveries_user_id_status_queued_at_idx
  on email_deliveries (user_id, status, queued_at desc, event_id desc);

-- The sessions that are to be deleted, by each of the three reasons.
create index concurrently if not exists sessions_expires_at_idx on sessions (expires_at);

create index concurrently if not exists sessions_last_used_at_idx on sessions (last_used_at);

create index concurrently if not exists sessions_revoked_at_idx on sessions (revoked_at) where revoked_at is not null;
