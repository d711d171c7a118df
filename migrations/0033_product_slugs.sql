-- The addresses of products' pages, also those of the past: no address silently becomes another product's. See docs/decisions/0274.
create table product_slugs (
  slug text collate "C" constraint product_slugs_slug_unique primary key,
  product_id uuid not null,
  -- When another slug took its place; null for the one of now.
  retired_at timestamptz(3),
  constraint product_slugs_product_id_fkey foreign key (product_id) references products (id) on delete cascade
);
-- `include`: lists read the slug from the index alone.
create unique index product_slugs_product_id_idx on product_slugs (product_id) include (slug) where retired_at is null;
create index product_slugs_product_id_retired_at_idx on product_slugs (product_id, retired_at) where retired_at is not null;

-- Gives products that were inserted without a slug one of their own, also those of the release before, which knows no slugs. 0058 gives the
-- existing products theirs.
create function products_give_slugs() returns trigger
  language plpgsql
  -- A plan that was made while the table was small must not read the whole table later.
  set enable_seqscan = off
as $$
begin
  for attempt in 1..4 loop
    insert into product_slugs (slug, product_id)
    select candidate.slug, changed.id
    from changed
    cross join slug_candidate(changed.name, changed.sku, changed.id, attempt) as candidate (slug)
    where candidate.slug is not null
      -- Not as a join, which could be one with all slugs there are.
      and (select slug from product_slugs where product_id = changed.id and retired_at is null) is null
    -- In one order, so that two imports with the same names wait for each other in one direction.
    order by candidate.slug collate "C", changed.sku collate "C"
    on conflict (slug) do nothing;
    exit when not exists (
      select from changed where (select slug from product_slugs where product_id = changed.id and retired_at is null) is null
    );
  end loop;
  return null;
end
$$;
create trigger products_insert_slugs after insert on products
  referencing new table as changed
  for each statement execute function products_give_slugs();
