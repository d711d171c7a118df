-- no transaction
-- functions: 4dfb1c1cdf75a92d
-- Archived products, and the variants of a group in every state, for operators. The second one replaces the index of
-- the listed variants.
create index concurrently if not exists products_archived_idx on products (id) where archived_at is not null and not is_withheld;

create index concurrently if not exists products_variant_group_id_idx on products (variant_group, id) where variant_group is not null;

drop index concurrently if exists products_variant_group_idx;
