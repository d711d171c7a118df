-- What all variants of a group share. Each variant has the values in its own row too, so lists, search and events read
-- only products. See docs/decisions/catalogue-groups.md.
create table product_groups (
  -- The `variant_group` of its products.
  name text primary key,
  content jsonb not null,
  updated_at timestamptz(3) not null default now(),
  constraint product_groups_name_not_empty check (name <> '')
);

-- The groups of the changed products, before and after, whose pages with variants are purged. The previous release
-- ignores the column, and has no such pages.
alter table catalogue_changes add column variant_groups text[];

drop trigger products_note_update on products;
create trigger products_note_update after update on products
  referencing old table as before new table as changed
  for each statement execute function products_note_change();
-- functions: ae06d172e3cc80d4
