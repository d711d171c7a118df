-- Each search of activities is a walk of one index, with a range of time in it: see activity/list-activities.ts.
drop index activities_actor_id_id_idx;
drop index activities_subject_id_id_idx;
create index activities_at_id_idx on activities (at desc, id desc);
-- A command has no id: its actor is found as `system`.
create index activities_actor_at_id_idx on activities (coalesce(actor_id, actor_type), at desc, id desc);
create index activities_subject_id_at_id_idx on activities (subject_id, at desc, id desc);
create index activities_subject_type_at_id_idx on activities (subject_type, at desc, id desc);
create index activities_action_at_id_idx on activities (action, at desc, id desc);

-- The lake stores activities in order of id, and 8 may commit before 7. Its writer waits until every transaction has ended that may have
-- drawn an id up to the newest one: so a transaction must have its own id, which is visible to others, before it draws one.
-- See docs/decisions/0210.
create function assign_transaction_id() returns trigger language plpgsql as $$
begin
  perform pg_current_xact_id();
  return null;
end
$$;
create trigger activities_have_transaction before insert on activities for each statement execute function assign_transaction_id();

-- A restored database has forgotten activities that the lake may have: those of a new incarnation get ids of their own.
create function advance_activities() returns trigger language plpgsql as $$
begin
  perform setval('activities_id_seq', greatest((select last_value from activities_id_seq), new.number::bigint * 1000000));
  return null;
end
$$;
create trigger database_incarnations_advance_activities after insert on database_incarnations
  for each row when (new.number > 0) execute function advance_activities();

-- The greatest id that an activity has been given, also when its transaction has not ended or was rolled back.
create function newest_activity_id() returns bigint language sql security definer as $$
  select case when is_called then last_value else 0 end from activities_id_seq
$$;
-- A table in the caller's temporary schema must not replace one of the store in a function with the owner's rights.
do $$
begin
  execute format('alter function newest_activity_id() set search_path = %I, pg_temp', current_schema());
end
$$;

-- Somebody must be able to give others their roles. A trigger, so that no way of changing or deleting an account leaves a store without
-- an admin; the lock, so that of two who remove the last two admins at once the second one counts again.
create function keep_an_admin() returns trigger language plpgsql as $$
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
create trigger users_admin_demoted before update of role on users
  for each row when (old.role = 'admin' and new.role <> 'admin') execute function keep_an_admin();
create trigger users_admin_deleted before delete on users for each row when (old.role = 'admin') execute function keep_an_admin();
