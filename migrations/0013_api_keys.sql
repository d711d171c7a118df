-- Keys with which machines call the API: see docs/decisions/0205-api-keys.md.
create table api_keys (
  -- In the key's text too, so that a key is found without its secret.
  id uuid primary key,
  name text not null,
  scopes text[] not null,
  -- SHA-256 of 256 random bits: a reader of this table cannot call the API with it.
  secret_hash bytea not null,
  -- The secret before the last rotation, which stays valid until then.
  previous_secret_hash bytea,
  previous_expires_at timestamptz(3),
  -- The operator's account; null for a key made by a command. No foreign key: the key outlives the account, revoked.
  created_by uuid,
  created_at timestamptz(3) not null default now(),
  -- Null: it does not expire.
  expires_at timestamptz(3),
  -- Written at most once a minute.
  last_used_at timestamptz(3),
  revoked_at timestamptz(3),
  revoked_reason text,
  -- The last change. As in session_revocations: every process of the API reads changes a few times a second.
  transaction_id xid8 not null default pg_current_xact_id(),
  constraint api_keys_name_length check (char_length(name) between 1 and 100),
  constraint api_keys_scopes_some check (cardinality(scopes) between 1 and 100),
  -- A stolen key must not be able to make others that outlive it.
  constraint api_keys_scopes_without_access check (not 'access:write' = any (scopes)),
  constraint api_keys_hashes_sha256 check (octet_length(secret_hash) = 32 and octet_length(previous_secret_hash) = 32),
  constraint api_keys_previous_whole check ((previous_secret_hash is null) = (previous_expires_at is null)),
  constraint api_keys_revoked_whole check ((revoked_at is null) = (revoked_reason is null)),
  constraint api_keys_revoked_reason_known check (revoked_reason in ('revoked', 'maker_deleted', 'maker_demoted'))
);
create index api_keys_transaction_id_idx on api_keys (transaction_id);
create index api_keys_created_by_idx on api_keys (created_by);

-- Triggers, so that processes notice every change, also a statement typed by an operator. `last_used_at` is no change.
create function mark_changed_api_key() returns trigger language plpgsql as $$
begin
  new.transaction_id := pg_current_xact_id();
  return new;
end
$$;
create trigger api_keys_changed
  before update of scopes, secret_hash, previous_secret_hash, previous_expires_at, created_by, expires_at, revoked_at on api_keys
  for each row execute function mark_changed_api_key();

-- The history of orders names keys, and processes would not notice a missing row.
create function refuse_deletion_of_api_key() returns trigger language plpgsql as $$
begin
  raise exception 'an API key is revoked, not deleted: update api_keys set revoked_at = now(), revoked_reason = ''revoked'' where id = …';
end
$$;
create trigger api_keys_deleted before delete on api_keys for each row execute function refuse_deletion_of_api_key();

-- A key may do no more than the account that made it: see docs/decisions/0206-keys-of-former-operators.md.
create function revoke_api_keys_of_account() returns trigger language plpgsql as $$
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
create trigger users_deleted_api_keys after delete on users for each row execute function revoke_api_keys_of_account();
create trigger users_demoted_api_keys after update of role on users
  for each row when (old.role is distinct from new.role and new.role in ('customer', 'guest')) execute function revoke_api_keys_of_account();

-- Another role of operators: every process reads the keys again, with what the role may do.
create function reread_api_keys_of_account() returns trigger language plpgsql as $$
begin
  update api_keys set transaction_id = pg_current_xact_id() where created_by = new.id and revoked_at is null;
  return null;
end
$$;
create trigger users_role_changed_api_keys after update of role on users
  for each row when (old.role is distinct from new.role and new.role not in ('customer', 'guest')) execute function reread_api_keys_of_account();
