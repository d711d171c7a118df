-- no transaction
-- functions: 0dda5f677fdfdafb
create index concurrently if not exists products_changes_at_idx on products (changes_at) where changes_at is not null;

create index concurrently if not exists products_withheld_idx on products (id) where is_withheld;

alter table products validate constraint products_status_known;
