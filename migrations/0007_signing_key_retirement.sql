-- Since when a key no longer signs. It verifies on until its last token has expired; its private half is erased at once.
alter table signing_keys add column retired_at timestamptz(3);
alter table signing_keys alter column sealed_private_key drop not null;
alter table signing_keys add constraint signing_keys_private_until_retired check ((retired_at is null) = (sealed_private_key is not null));
