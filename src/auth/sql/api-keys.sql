-- Triggers notify processes of every change, also of a statement that an operator types. `last_used_at` is no change.
create or replace function mark_changed_api_key() returns trigger language plpgsql as $$
begin
  new.transaction_id := pg_current_xact_id();
  return new;
end
$$;

-- The history of orders names keys, and processes would not notice a missing row.
create or replace function refuse_deletion_of_api_key() returns trigger language plpgsql as $$
begin
  raise exception 'an API key is revoked, not deleted: update api_keys set revoked_at = now(), revoked_reason = ''revoked'' where id = …';
end
$$;

-- A key may do no more than the account that made it: see docs/decisions/auth-access.md#keys-of-former-operators.
create or replace function revoke_api_keys_of_account() returns trigger language plpgsql as $$
begin
  with revoked as (
    update api_keys
    set revoked_at = now(), revoked_reason = case tg_op when 'DELETE' then 'maker_deleted' else 'maker_demoted' end
    where created_by = old.id and revoked_at is null
    returning id, revoked_reason
  )
  insert into activities (actor_type, action, subject_type, subject_id, after)
  select 'system', 'revokeApiKeysOfAccount', 'api_key', id, jsonb_build_object('revoked_reason', revoked_reason)
  from revoked;
  return null;
end
$$;

-- After a change of an operator's role every process reads the keys again, with what the role may do.
create or replace function reread_api_keys_of_account() returns trigger language plpgsql as $$
begin
  update api_keys set transaction_id = pg_current_xact_id() where created_by = new.id and revoked_at is null;
  return null;
end
$$;
