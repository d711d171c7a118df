-- no transaction
-- functions: b17d7ffa974198a7
-- Accounts or guests alone, newest first: guests may be nearly all of the newest rows.
create index concurrently if not exists users_role_id_idx on users (role, id);

-- The same by address.
create index concurrently if not exists users_role_email_bytes_id_idx on users (role, (email collate "C"), id);
