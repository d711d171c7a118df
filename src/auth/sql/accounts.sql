-- A trigger, so that every way of deleting an account records it, also a statement typed by an operator.
create or replace function record_deleted_account() returns trigger language plpgsql as $$
begin
  insert into deleted_accounts (user_id) values (old.id) on conflict do nothing;
  return null;
end
$$;

-- Somebody must be able to give others their roles. A trigger, so that no way of changing or deleting an account leaves a store without
-- an admin; the lock, so that of two who remove the last two admins at once the second one counts again.
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

-- An address that an account had until lately is kept for it, or the change could not be reverted. After the insert: a transaction that has waited
-- in users_email_unique for the one that gave the address up sees that one's change here.
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
