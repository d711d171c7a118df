-- no transaction
-- functions: a336850181d0d5cd
create index concurrently if not exists orders_email_idx on orders (email) where email is not null;
