-- The texts of a product in other languages, by BCP 47 tag: {"de": {"name", "description", "seo_title", "seo_description",
-- "availability_text"}}. A text that is missing is the product's own. Adding the columns rewrites nothing. See docs/decisions/0283.
alter table products add column translations jsonb not null default '{}';
alter table products add constraint products_translations_object check (jsonb_typeof(translations) = 'object') not valid;

-- The words of `search` and those of the translations; null without translations. Another expression of `search` itself would rewrite the table.
alter table products add column translated_search tsvector;
alter table products alter column translated_search set statistics 400;

-- As in 0002, of a text that ends after 120,000 characters: a tsvector has at most 1 MiB, and a character such as U+FDFA becomes 18. All texts
-- of a product without such characters are shorter. A word of one Han character takes the most, four bytes for each character of the text.
create or replace function catalogue_words(text) returns tsvector
  language sql immutable strict parallel safe
  return search_vector(left(search_text($1), 120000));

create function translated_words(name text, category text, options jsonb, sku text, description text, translations jsonb) returns tsvector
  language sql immutable parallel safe
  return (
    select setweight(catalogue_words(concat_ws(' ', name, string_agg(texts ->> 'name', ' ' order by language collate "C"))), 'A')
      -- As in the column `search`.
      || setweight(catalogue_words(concat_ws(' ', category, search_option_words(options))), 'B')
      || setweight(catalogue_words(sku), 'C')
      || setweight(catalogue_words(concat_ws(' ', description, string_agg(texts ->> 'description', ' ' order by language collate "C"))), 'D')
    from jsonb_each(translations) as translation (language, texts)
  );

create function products_translate_words() returns trigger
  language plpgsql
  as $$
begin
  new.translated_search := case
    when new.translations <> '{}'
    then translated_words(new.name, concat_ws(' ', new.category, new.brand), new.options, new.sku, new.description, new.translations)
  end;
  return new;
end
$$;
create trigger products_insert_translated_words before insert on products
  for each row when (new.translations <> '{}') execute function products_translate_words();
create trigger products_update_translated_words before update of name, category, options, brand, sku, description, translations on products
  for each row when (new.translations <> '{}' or old.translations <> '{}') execute function products_translate_words();

-- Also the words of translations are offered for mistyped ones.
create or replace function products_collect_words() returns trigger
  language plpgsql
  as $$
begin
  if tg_op = 'INSERT' then
    insert into search_words (word)
    select distinct entry.lexeme
    from changed
    cross join unnest(ts_filter(coalesce(changed.translated_search, changed.search), '{a,b,d}')) as entry
    where length(entry.lexeme) between 3 and 40 and entry.lexeme !~ '[0-9]'
    -- In one order, so that two imports with the same new words wait for each other in one direction.
    order by 1
    on conflict do nothing;
  else
    insert into search_words (word)
    select distinct entry.lexeme
    from changed
    join before on before.id = changed.id
      and (before.search, before.translated_search) is distinct from (changed.search, changed.translated_search)
    cross join unnest(ts_filter(coalesce(changed.translated_search, changed.search), '{a,b,d}')) as entry
    where length(entry.lexeme) between 3 and 40 and entry.lexeme !~ '[0-9]'
    order by 1
    on conflict do nothing;
  end if;
  return null;
end
$$;

-- How many sold products have texts in a language: the languages that a request can be answered in, known without reading products.
create table catalogue_languages (
  language text primary key,
  products bigint not null
);

-- Adds to the numbers of products. With a language that comes or goes, pages of other products may be in another language: caches in front drop all.
create function count_languages(languages text[], differences bigint[]) returns void language sql as $$
  with counted as (
    insert into catalogue_languages (language, products)
    select language, difference
    from unnest(languages, differences) as counting (language, difference)
    -- In one order, so that two imports wait for each other in one direction.
    order by language
    on conflict (language) do update set products = catalogue_languages.products + excluded.products
    returning language, products
  )
  insert into catalogue_changes (product_ids)
  select null
  where exists (
    select from counted
    join unnest(languages, differences) as counting (language, difference) using (language)
    where counted.products in (0, difference)
  )
$$;

create function products_count_languages() returns trigger
  language plpgsql
  as $$
begin
  -- Most changes are of products without translations.
  if tg_op <> 'UPDATE' then
    if not exists (select from changed where translations <> '{}') then
      return null;
    end if;
    perform count_languages(
      array_agg(language order by language),
      array_agg(case tg_op when 'INSERT' then products else -products end order by language)
    )
    from (
      select language, count(*) as products
      from changed
      cross join jsonb_object_keys(translations) as language
      where archived_at is null
      group by language
    ) as counted;
  else
    if not exists (select from changed where translations <> '{}') and not exists (select from before where translations <> '{}') then
      return null;
    end if;
    perform count_languages(array_agg(language order by language), array_agg(products order by language))
    from (
      select language, sum(difference)::bigint as products
      from (
        select language, 1 as difference from changed cross join jsonb_object_keys(translations) as language where archived_at is null
        union all
        select language, -1 from before cross join jsonb_object_keys(translations) as language where archived_at is null
      ) as differences
      group by language
      having sum(difference) <> 0
    ) as counted;
  end if;
  return null;
end
$$;
create trigger products_insert_languages after insert on products
  referencing new table as changed
  for each statement execute function products_count_languages();
create trigger products_update_languages after update on products
  referencing old table as before new table as changed
  for each statement execute function products_count_languages();
create trigger products_delete_languages after delete on products
  referencing old table as changed
  for each statement execute function products_count_languages();

-- As in 0035, with translations and categories.
create or replace function product_snapshots(ids uuid[]) returns table (product_id uuid, product json) language sql stable as $$
  select
    product.id,
    json_build_object(
      'id', product.id,
      'slug', product_slugs.slug,
      'sku', product.sku,
      'name', product.name,
      'description', product.description,
      'category', product.category,
      -- Without the categories above them: a move of one changes no product.
      'categories', (
        select coalesce(json_agg(json_build_object('id', category.id, 'slug', category.slug, 'name', category.name) order by member.position), '[]')
        from product_categories as member
        join categories as category on category.id = member.category_id
        where member.product_id = product.id and member.is_listed
      ),
      'brand', product.brand,
      'image_url', product.image_url,
      'group', product.variant_group,
      'options', product.options,
      'attributes', product.attributes,
      'price', json_build_object('amount', product.price_amount, 'currency', product.price_currency),
      'compare_at_price', case when product.compare_at_amount > product.price_amount
        then json_build_object('amount', product.compare_at_amount, 'currency', product.price_currency) end,
      'images', case
        when product.image_url is null then '[]'
        when page.images -> 0 ->> 'url' = product.image_url then page.images
        -- image_url is the first image, also where the release before has changed it since.
        else jsonb_build_array(jsonb_build_object('url', product.image_url, 'alt', '', 'width', null, 'height', null))
          || coalesce(page.images - 0, '[]')
      end,
      'seo', json_build_object('title', page.seo_title, 'description', page.seo_description),
      'availability_text', page.availability_text,
      'translations', product.translations,
      'created_at', to_char(product.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'archived_at', to_char(product.archived_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    )
  from unnest(ids) as wanted (id)
  join products as product on product.id = wanted.id
  left join product_slugs on product_slugs.product_id = product.id and product_slugs.retired_at is null
  left join product_pages as page on page.product_id = product.id
$$;
