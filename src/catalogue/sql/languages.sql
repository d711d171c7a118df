-- Changes the number of products of each language. If a language is new or gone, caches in front drop everything,
-- because pages of other products may be in another language.
create or replace function count_languages(languages text[], differences bigint[]) returns void language sql as $$
  with counted as (
    insert into catalogue_languages (language, products)
    select language, difference
    from unnest(languages, differences) as counting (language, difference)
    -- The order prevents a deadlock of two imports.
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

create or replace function products_count_languages() returns trigger
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
