-- Orders are never deleted, so the key's reference can never dangle: both were written by one statement. Checking it would read every
-- order again, and the index served only the cascade.
alter table idempotency_keys drop constraint idempotency_keys_order_id_fkey;
drop index idempotency_keys_order_id_idx;

-- Few orders have a reference; those without need no entry. The name stays: it is what a refusal is known by.
alter table orders drop constraint orders_client_reference_unique;
create unique index orders_client_reference_unique on orders (user_id, client_reference) where client_reference is not null;
