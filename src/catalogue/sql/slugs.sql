-- Returns the words of a text as part of an address: lower case, no accents, letters and digits of any script, joined
-- by hyphens. The result is null if nothing is left, for example of emoji. The steps are those of search_text, so texts
-- that are one word to a search give one slug.
create or replace function slug_of(text) returns text
  language plpgsql immutable strict parallel safe as $$
declare
  words text := search_text($1);
begin
  if octet_length(words) <> char_length(words) then
    -- Symbols are words of a search, but no part of an address.
    words := regexp_replace(words, '['
      '\u2190-\u2bff\u3000-\u3004\u3012-\u3020\u3036-\u303f\ue000-\uf8ff\ufff9-\uffff\U0001f000-\U0001faff\U000f0000-\U0010ffff'
      ']+', ' ', 'g');
    -- Recomposes Hangul and kana, which search_text has decomposed.
    words := normalize(words, nfc);
  end if;
  return nullif(rtrim(left(regexp_replace(trim(words), ' +', '-', 'g'), 100), '-'), '');
end
$$;

-- Returns the slug of a product for which nobody has chosen one: its name, or if that is taken or empty, the name with
-- the sku, then with a part of the id.
create or replace function slug_candidate(name text, sku text, id uuid, attempt integer) returns text
  language plpgsql immutable parallel safe as $$
declare
  suffix text := case attempt when 2 then left(slug_of(sku), 64) when 3 then right(id::text, 12) when 4 then id::text end;
begin
  if suffix is null then
    return slug_of(name);
  end if;
  return concat_ws('-', rtrim(left(slug_of(name), 99 - length(suffix)), '-'), rtrim(suffix, '-'));
end
$$;

-- Gives a slug to products that were inserted without one.
create or replace function products_give_slugs() returns trigger
  language plpgsql
  -- A plan from a time when the table was small must not read the whole table later.
  set enable_seqscan = off
as $$
begin
  for attempt in 1..4 loop
    insert into product_slugs (slug, product_id)
    select candidate.slug, changed.id
    from changed
    cross join slug_candidate(changed.name, changed.sku, changed.id, attempt) as candidate (slug)
    where candidate.slug is not null
      -- This is no join, because a join could read all slugs.
      and (select slug from product_slugs where product_id = changed.id and retired_at is null) is null
    -- The order prevents a deadlock of two imports with the same names.
    order by candidate.slug collate "C", changed.sku collate "C"
    on conflict (slug) do nothing;
    exit when not exists (
      select from changed where (select slug from product_slugs where product_id = changed.id and retired_at is null) is null
    );
  end loop;
  return null;
end
$$;
