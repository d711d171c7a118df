-- Changes of the e-mail addresses of accounts: see docs/decisions/0230-changes-of-addresses.md.
create table email_changes (
  id bigint generated always as identity primary key,
  user_id uuid not null,
  -- The address of the account when the change was asked for, and since when it was proven.
  old_email text not null,
  old_email_verified_at timestamptz(3),
  -- Stored as `users.email`.
  new_email text not null,
  -- SHA-256 of the token that was mailed to the new address. Null: the change was made, or cannot be made any more.
  confirm_token_hash bytea,
  -- SHA-256 of the tokens that were mailed to the old address, when the change was asked for and when it was made. Each of them reverts it.
  notice_token_hash bytea not null,
  revert_token_hash bytea,
  requested_at timestamptz(3) not null,
  -- When the account got another address. Also of requests that another one had replaced by then: their notices revert it too.
  changed_at timestamptz(3),
  -- Of the request; of reverting once the change is made. Until then nobody else can have the old address.
  expires_at timestamptz(3) not null,
  constraint email_changes_user_exists foreign key (user_id) references users (id) on delete cascade,
  constraint email_changes_confirm_token_unique unique (confirm_token_hash),
  constraint email_changes_notice_token_unique unique (notice_token_hash),
  constraint email_changes_revert_token_unique unique (revert_token_hash),
  constraint email_changes_made_once check (changed_at is null or confirm_token_hash is null)
);
create index email_changes_user_id_idx on email_changes (user_id);
create index email_changes_old_email_idx on email_changes (old_email) where changed_at is not null;
create index email_changes_expires_at_idx on email_changes (expires_at);

-- An address that an account had until lately is kept for it, or the change could not be reverted. After the insert: a transaction that has waited
-- in users_email_unique for the one that gave the address up sees that one's change here.
create function refuse_reserved_email() returns trigger language plpgsql as $$
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
create trigger users_email_reserved after insert or update of email on users
  for each row when (new.role <> 'guest') execute function refuse_reserved_email();
