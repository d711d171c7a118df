-- no transaction
-- Gives the existing products what the triggers of 0033 and 0037 give to new ones: a slug and a category.

-- The oldest of several products with one name gets the name: ids are in the order of time.
do $$
declare
  reached uuid := '00000000-0000-0000-0000-000000000000';
  ids uuid[];
  examined bigint := 0;
begin
  loop
    ids := array(select id from products where id > reached order by id limit 500);
    exit when cardinality(ids) = 0;
    for attempt in 1..4 loop
      insert into product_slugs (slug, product_id)
      select candidate.slug, product.id
      from products as product
      cross join slug_candidate(product.name, product.sku, product.id, attempt) as candidate (slug)
      where product.id = any(ids)
        and candidate.slug is not null
        and not exists (select from product_slugs where product_id = product.id and retired_at is null)
      order by candidate.slug collate "C", product.id
      on conflict (slug) do nothing;
    end loop;
    commit;
    reached := ids[cardinality(ids)];
    examined := examined + cardinality(ids);
    if examined % 50000 = 0 then
      raise notice 'slugs of products: % so far', examined;
    end if;
  end loop;
end
$$;

-- Names that are a slug themselves come first: `category=toys` is the category `toys` and not `Toys`, as before.
do $$
declare
  name text;
begin
  for name in
    select category
    from (
      select distinct category from products where not exists (select from product_categories where product_id = products.id)
    ) as text
    order by (category = slug_of(category)) is true desc, category collate "C"
  loop
    perform category_of_name(name);
  end loop;
  -- Once: an order is placed again when the catalogue has changed since its prices were read.
  commit;
end
$$;

do $$
declare
  reached uuid := '00000000-0000-0000-0000-000000000000';
  ids uuid[];
  examined bigint := 0;
begin
  loop
    -- Locked: a change in another transaction would not find the row of the category, and leave it with the former name and price.
    ids := array(select id from products where id > reached order by id limit 500 for share);
    exit when cardinality(ids) = 0;
    insert into product_categories (product_id, category_id, position, is_listed, price_amount, created_at, name)
    select product.id, text.id, 0, product.archived_at is null, product.price_amount, product.created_at, product.name
    from products as product
    join (
      select category, category_of_name(category) as id
      from (
        select distinct category
        from products
        where id = any(ids) and not exists (select from product_categories where product_id = products.id)
        order by category
      ) as missing
    ) as text using (category)
    where product.id = any(ids) and not exists (select from product_categories where product_id = product.id);
    commit;
    reached := ids[cardinality(ids)];
    examined := examined + cardinality(ids);
    if examined % 50000 = 0 then
      raise notice 'categories of products: % so far', examined;
    end if;
  end loop;
end
$$;

analyze product_slugs;

analyze categories;

analyze product_categories;
