-- The products that a list shows first. A new state of a ranking is a new row: pages that follow an earlier one read
-- that one. See docs/decisions/catalogue-lists.md#rankings.
create table product_rankings (
  id bigint generated always as identity primary key,
  sort text not null,
  -- The category of the lists; null for those of the whole shop.
  category_id uuid references categories (id) on delete cascade,
  product_ids uuid[] not null,
  created_at timestamptz(3) not null default now(),
  -- When a newer state replaced it; null for the present one.
  replaced_at timestamptz(3),
  constraint product_rankings_sort_known check (sort in ('best_selling', 'position')),
  constraint product_rankings_position_in_category check (sort = 'best_selling' or category_id is not null),
  constraint product_rankings_length_in_range check (cardinality(product_ids) <= 200)
);
create unique index product_rankings_present_idx on product_rankings (sort, category_id) nulls not distinct where replaced_at is null;
create index product_rankings_category_id_sort_idx on product_rankings (category_id, sort);

create trigger product_rankings_note_change after insert on product_rankings
  referencing new table as changed
  for each statement execute function rankings_note_change();
-- functions: 3ffe70c24492f9a4
