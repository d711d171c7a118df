-- no transaction
-- functions: c332d127bccd094d
-- Mails that wait for an hour of their account in which it has had fewer.
do $$
declare
  ids text[];
begin
  loop
    select array(
      select event_id from email_deliveries
      where status = 'queued' and send_after > now() and due_at < send_after
      limit 1000
    ) into ids;
    exit when ids = '{}';
    update email_deliveries
    set due_at = send_after
    where event_id = any(ids) and status = 'queued';
    commit;
  end loop;
end
$$;

create index concurrently if not exists email_deliveries_receiver_due_at_idx on email_deliveries (receiver, due_at) where status = 'queued';

create index concurrently if not exists webhook_deliveries_endpoint_id_due_at_idx on webhook_deliveries (endpoint_id, due_at) where status = 'queued';

alter table email_deliveries validate constraint email_deliveries_queued_with_receiver;
