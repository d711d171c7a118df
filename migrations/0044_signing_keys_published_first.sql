-- A new key is published before it signs: whoever keeps the JWKS for its max-age meets no token of a key that it does not name. See
-- docs/decisions/0100-keys-are-published-before-they-sign.md.
alter table signing_keys add column signs_from timestamptz(3) not null default now();

-- A rotation says in advance when the key before retires. Until then that one signs, and needs its private half; it is erased soon after.
alter table signing_keys drop constraint signing_keys_private_until_retired;
alter table signing_keys add constraint signing_keys_private_until_retired check (retired_at is not null or sealed_private_key is not null);
