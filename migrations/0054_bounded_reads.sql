-- no transaction

-- For operators, who ask for the orders of a status in a period: no other index has both.
create index concurrently if not exists orders_status_created_at_id_idx on orders (status, created_at desc, id desc);

-- The few operators among many customers; in place of the index of admins, who are some of them.
create index concurrently if not exists users_operators_idx on users (id) where role not in ('customer', 'guest');

drop index concurrently if exists users_admins_idx;
