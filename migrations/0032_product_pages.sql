-- In lists. Unvalidated constraints hold for every write; the rows there are have null, and are not read for that.
alter table products add column brand text;
alter table products add constraint products_brand_not_empty check (brand <> '') not valid;
-- The price before a reduction, in the currency of the price. It is shown only above the price: the release before changes the price alone.
alter table products add column compare_at_amount bigint;
alter table products add constraint products_compare_at_in_range check (compare_at_amount between 1 and 9007199254740991) not valid;

-- What only the page of a product shows. Products without any of it have no row, so lists and orders read no more than before.
create table product_pages (
  product_id uuid primary key references products (id) on delete cascade,
  -- [{url, alt, width, height}]. products.image_url is the first one's URL, also where the release before has changed it since.
  images jsonb not null default '[]',
  seo_title text,
  seo_description text,
  availability_text text,
  constraint product_pages_images_array check (jsonb_typeof(images) = 'array')
);

-- The words of a text as part of an address: in lower case, without accents, letters and digits of any script with hyphens between them.
-- Null when nothing is left, as of a text of emoji. The steps are those of search_text, so texts that are one word to a search are one slug.
create function slug_of(text) returns text
  language plpgsql immutable strict parallel safe as $$
declare
  words text := search_text($1);
begin
  if octet_length(words) <> char_length(words) then
    -- Symbols are words of a search and no part of an address.
    words := regexp_replace(words, '['
      '\u2190-\u2bff\u3000-\u3004\u3012-\u3020\u3036-\u303f\ue000-\uf8ff\ufff9-\uffff\U0001f000-\U0001faff\U000f0000-\U0010ffff'
      ']+', ' ', 'g');
    -- Composed: search_text has taken Hangul and kana apart.
    words := normalize(words, nfc);
  end if;
  return nullif(rtrim(left(regexp_replace(trim(words), ' +', '-', 'g'), 100), '-'), '');
end
$$;

-- The slug of a product for which nobody has chosen one: its name; where that is taken or empty, with the sku, then with a part of the id.
create function slug_candidate(name text, sku text, id uuid, attempt integer) returns text
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
