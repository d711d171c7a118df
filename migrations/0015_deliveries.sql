-- contract: nothing has been released that uses the job queue.
-- A delivery's row is its job: taken under a lease, due again at the end of it.
alter table email_deliveries
  drop column job_number,
  -- The shortened domain of the recipient, while the mail is queued (docs/decisions/deliveries.md); '-' for none.
  add column receiver text default '-',
  add column due_at timestamptz(3) not null default now(),
  -- When due_at was written: a clock that went back shows such a time in the future.
  add column due_set_at timestamptz(3) not null default now(),
  -- The process that makes the delivery, and until when others leave it alone.
  add column lease uuid,
  add column leased_until timestamptz(3);
alter table email_deliveries
  add constraint email_deliveries_queued_with_receiver check (status <> 'queued' or receiver is not null) not valid;
-- A take changes no indexed column: with room in the page it adds nothing to the indexes.
alter table email_deliveries set (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

alter table webhook_deliveries
  drop column job_number,
  add column due_at timestamptz(3) not null default now(),
  add column due_set_at timestamptz(3) not null default now(),
  add column lease uuid,
  add column leased_until timestamptz(3);
alter table webhook_deliveries set (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

-- Mails about accounts, until they are sent or given up.
create table account_mails (
  mail_id uuid primary key,
  -- Encrypted under STOREFRONT_SECRET: they contain tokens.
  encrypted text not null,
  expires_at timestamptz(3) not null,
  receiver text not null,
  attempts integer not null default 0,
  last_error text,
  due_at timestamptz(3) not null default now(),
  due_set_at timestamptz(3) not null default now(),
  lease uuid,
  leased_until timestamptz(3)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index account_mails_receiver_due_at_idx on account_mails (receiver, due_at);

-- Purges of the caches in front of the store, until they have succeeded.
create table cache_purges (
  purge_id uuid primary key,
  cache text not null,
  tags text[] not null,
  queued_at timestamptz(3) not null default now(),
  attempts integer not null default 0,
  last_error text,
  due_at timestamptz(3) not null default now(),
  due_set_at timestamptz(3) not null default now(),
  lease uuid,
  leased_until timestamptz(3)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index cache_purges_cache_due_at_idx on cache_purges (cache, due_at);

-- What waited in the queue before. The receivers of these mails are encrypted; caches are purged as a whole.
do $$
begin
  if to_regclass('pgboss.job') is null then
    return;
  end if;
  insert into account_mails (mail_id, encrypted, expires_at, receiver)
  select id, data ->> 'encrypted', (data ->> 'expires_at')::timestamptz, '-'
  from pgboss.job
  where name = 'account-mail' and state::text in ('created', 'retry', 'active');
  insert into catalogue_changes (product_ids)
  select null
  where exists (select from pgboss.job where name = 'cdn-purge' and state::text in ('created', 'retry', 'active'));
  -- It would name each dropped object.
  perform set_config('client_min_messages', 'warning', true);
  drop schema pgboss cascade;
end
$$;
