-- A trigger records every way of deleting an account, also a statement that an operator types.
create or replace function record_deleted_account() returns trigger language plpgsql as $$
begin
  insert into deleted_accounts (user_id) values (old.id) on conflict do nothing;
  return null;
end
$$;

-- Somebody must be able to give others their roles. A trigger covers every way of changing or deleting an account. The
-- lock makes the second of two who remove the last two admins at once count again.
create or replace function keep_an_admin() returns trigger language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('storefront admins', 0));
  if not exists (select from users where role = 'admin' and id <> old.id) then
    raise exception 'the store would have no admin' using errcode = 'check_violation', constraint = 'users_last_admin';
  end if;
  if tg_op = 'DELETE' then
    return old;
  end if;
  return new;
end
$$;

-- Keeps an address that an account had recently for that account, because the change can be reverted. The trigger runs
-- after the insert: a transaction that waited in users_email_unique for the one that gave the address up sees that
-- change here.
create or replace function refuse_reserved_email() returns trigger language plpgsql as $$
begin
  if exists (
    select from email_changes
    where old_email = new.email and changed_at is not null and expires_at > now() and user_id <> new.id
  ) then
    raise exception 'the address is kept for the account that had it until lately'
      using errcode = 'unique_violation', constraint = 'users_email_unique', table = 'users';
  end if;
  return null;
end
$$;
