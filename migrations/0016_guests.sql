-- A guest is an account without a password: anybody who types an address orders with the session that POST /auth/guest opens, and only with
-- that. See docs/decisions/0214-guests.md.
alter table users alter column password_hash drop not null;
alter table users
  -- The account that has proven the guest's address, and has its orders since. Orders keep the guest's id: events have it. Erasing the
  -- account erases the guest.
  add column owner_id uuid,
  -- When housekeeping deletes a guest that has ordered nothing. Null: it has ordered, or is no guest.
  add column guest_expires_at timestamptz(3),
  add constraint users_owner_exists foreign key (owner_id) references users (id) on delete cascade,
  -- A login asks for any account with the address that is no guest: a guest with a password would be one that no login finds.
  add constraint users_guest_has_no_password check (role <> 'guest' or password_hash is null),
  -- An account with a password never belongs to another one.
  add constraint users_owned_is_guest check (owner_id is null or role = 'guest');

-- Any number of guests may have one address, also that of an account: creating one reads no other row, so nothing shows whether there is one.
-- The name of the constraint stays: the API's error is found by it.
alter table users drop constraint users_email_unique;
create unique index users_email_unique on users (email) where role <> 'guest';
create index users_guest_email_created_at_idx on users (email, created_at desc) where role = 'guest';
create index users_owner_id_idx on users (owner_id) where owner_id is not null;
create index users_guest_expires_at_idx on users (guest_expires_at) where guest_expires_at is not null;

-- The address that the token was mailed to: only a token of the account's present address proves it. Null in rows of the release before.
alter table password_resets add column sent_to text;
