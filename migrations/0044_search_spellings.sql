-- Words as shops and shoppers write them: `gr49` and `Gr. 49`, `wifi` and `Wi-Fi`, `5,5` and `5.5`, `C++`, words within texts without blanks; and
-- the whole name as one word, so that a product whose name is the search comes first. Words are only added: the previous release searches with
-- those that it knows. Nothing is rewritten here: the backfill of events gives the existing products theirs, in batches. See docs/decisions/0022.

-- Scripts without blanks between words: Thai, Lao, Burmese, Khmer, Kana and Han. As in search-words.ts.
create function search_unspaced() returns text
  language sql immutable parallel safe
  return '\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u1049\u1780-\u17d3\u3005-\u3007\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff'
    '\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003fffd';

-- A number with a decimal separator, a word with its last `+` or `#`, and a size such as `20 × 30`, each as one word. Characters of private use
-- stand for the signs, which separate words otherwise.
create function search_signs(text) returns text
  language plpgsql immutable strict parallel safe as $$
declare
  signs text := $1;
begin
  if signs ~ '[0-9][.,][0-9]' then
    signs := regexp_replace(signs, '(?<![0-9.,])([0-9]+)[.,]([0-9]+)(?![0-9]|[.,][0-9])', E'\\1\uE000\\2', 'g');
  end if;
  if signs ~ '[^\u0001-@\u005b-\u0060\u007b-\u00bf][+#]' then
    signs := regexp_replace(signs, '(?<=[^\u0001-@\u005b-\u0060\u007b-\u00bf])\+\+(?=[\u0001-/:-@]|$)', E'\uE001\uE001', 'g');
    signs := regexp_replace(signs, '(?<=[^\u0001-@\u005b-\u0060\u007b-\u00bf])\+(?=[\u0001-*,-/:-@]|$)', E'\uE001', 'g');
    signs := regexp_replace(signs, '(?<=[^\u0001-@\u005b-\u0060\u007b-\u00bf])#(?=[\u0001-/:-@]|$)', E'\uE002', 'g');
  end if;
  if signs ~ '[0-9] *[xX×*] *[0-9]' then
    signs := regexp_replace(signs, '(?<=[0-9]) *[xX×*] *(?=[0-9])', 'x', 'g');
  end if;
  return signs;
end
$$;

-- What a text is found by besides its words, of its first 20,000 characters. `words`: search_text of the text. Each step reads only the places of
-- the text that it is about: most words are in none.
create function search_spellings(text, words text) returns text
  language plpgsql immutable strict parallel safe as $$
declare
  most constant integer := 20000;
  letter constant text := '[^\u0001-@\u005b-\u0060\u007b-\u00bf\u2000-\u206f\u3000-\u3020]';
  spellings text := '';
  places text;
begin
  if $1 ~ '[0-9+#]' then
    -- Words with digits or signs, and their neighbours.
    select left(search_text(string_agg(place[1], ' ')), most) into places
    from regexp_matches(search_signs(left($1, most)),
      '((?:(?:[^ \n\r\t0-9]+[ \n\r\t]+)?[^ \n\r\t]*[0-9\uE001\uE002][^ \n\r\t]*(?:[ \n\r\t]+|$))+[^ \n\r\t]*)', 'g') as place;
    -- Letters and digits are also written together.
    spellings := concat_ws(' ', places,
      regexp_replace(places, '([^ 0-9]) +(?=[0-9])', '\1', 'g'),
      regexp_replace(places, '([0-9]) +(?=[^ 0-9])', '\1', 'g'));
  end if;
  if $1 ~ (letter || '[-''’.&_‐‑]' || letter) then
    select left(search_text(string_agg(regexp_replace(place[1], '[-''’.&_‐‑](?=' || letter || ')', '', 'g'), ' ')), most) into places
    from regexp_matches(left($1, most), '(' || letter || '+(?:[-''’.&_‐‑]' || letter || '+)+)', 'g') as place;
    spellings := concat_ws(' ', spellings, places);
  end if;
  if octet_length(words) > char_length(words) and words ~ ('[' || search_unspaced() || ']') then
    spellings := concat_ws(' ', spellings, regexp_replace(left(words, most), '[' || search_unspaced() || ']+', ' ', 'g'), (
      select string_agg(concat_ws(' ', letters.letter, case when letters.following ~ ('[' || search_unspaced() || ']') then letters.letter || letters.following end), ' ')
      from (
        select character as letter, lead(character) over (order by place) as following
        from string_to_table(left(words, most / 4), null) with ordinality as split (character, place)
      ) as letters
      where letters.letter ~ ('[' || search_unspaced() || ']')
    ));
  end if;
  return spellings;
end
$$;

create or replace function catalogue_words(text) returns tsvector
  language plpgsql immutable strict parallel safe as $$
declare
  words text := left(search_text($1), 120000);
  found tsvector := search_vector(words);
  spellings text := search_spellings($1, words);
begin
  if spellings = '' then
    return found;
  end if;
  return found || ts_delete(search_vector(spellings), tsvector_to_array(found));
end
$$;

-- The whole name as a word, without blanks and signs and with `=` in front, which no word of a text has. Without a place, so that it is neither
-- ranked nor offered for a mistyped word.
create function search_name(name text) returns tsvector
  language sql immutable parallel safe
  return (
    select case when word = '' then '' else array_to_tsvector(array['=' || left(word, 500)]) end
    from (select translate(search_text(search_signs(coalesce(name, ''))), E' \uE000\uE001\uE002', '') as word) as whole
  );

create or replace function product_words(name text, category text, options jsonb, brand text, sku text, description text) returns tsvector
  language sql immutable parallel safe
  return setweight(catalogue_words(name), 'A')
    || setweight(catalogue_words(concat_ws(' ', category, case when options <> '{}' then search_option_words(options) end, brand)), 'B')
    || setweight(catalogue_words(sku), 'C')
    || setweight(catalogue_words(description), 'D')
    || search_name(name);

create or replace function translated_words(name text, category text, options jsonb, sku text, description text, translations jsonb) returns tsvector
  language sql immutable parallel safe
  return (
    select setweight(catalogue_words(concat_ws(' ', name, string_agg(texts ->> 'name', ' ' order by language collate "C"))), 'A')
      -- As in the column `search`.
      || setweight(catalogue_words(concat_ws(' ', category, search_option_words(options))), 'B')
      || setweight(catalogue_words(sku), 'C')
      || setweight(catalogue_words(concat_ws(' ', description, string_agg(texts ->> 'description', ' ' order by language collate "C"))), 'D')
      || array_to_tsvector(tsvector_to_array(search_name(name)) || coalesce(array_agg(own.word) filter (where own.word is not null), '{}'))
    from jsonb_each(translations) as translation (language, texts)
    left join lateral unnest(tsvector_to_array(search_name(texts ->> 'name'))) as own (word) on true
  );

-- As in 0035, and writes the words of each product that has others than the functions above give it.
create or replace function backfill_product_events(most integer) returns boolean language plpgsql
  security definer
  set search_path from current
  set enable_seqscan = off
as $$
declare
  previous_id uuid;
  ids uuid[];
begin
  -- Of several processes each takes its turn, so that one continues when another dies.
  select last_id into previous_id from product_event_backfill for update;
  if not found then
    return false;
  end if;
  select array_agg(id order by id) into ids
  from (select id from products where id > previous_id order by id limit most) as next;
  if ids is null then
    delete from product_event_backfill;
    return false;
  end if;
  -- Stock before products, as everywhere, so that nobody waits in a circle. Of stock only what becomes an event: orders need these rows.
  perform from inventory where product_id = any(ids) and available = 0 order by product_id for update;
  perform from products where id = any(ids) order by id for no key update;
  perform record_product_events(ids, null);
  insert into product_events (product_id, stream, version, type, occurred_at, data)
  select inventory.product_id, 'stock', inventory.version, 'stock.depleted', clock_timestamp(),
    json_build_object('product_id', inventory.product_id, 'sku', products.sku, 'available', 0, 'previous_available', null)
  from inventory
  join products on products.id = inventory.product_id
  where inventory.product_id = any(ids) and inventory.available = 0
    and not exists (select from product_events where product_id = inventory.product_id and stream = 'stock')
  on conflict do nothing;
  -- The triggers of the columns write the words.
  update products set name = name
  where id = any(ids) and search is distinct from product_words(name, category, options, brand, sku, description);
  update product_event_backfill set last_id = ids[cardinality(ids)];
  return true;
end
$$;
do $$
begin
  execute format('alter function backfill_product_events(integer) set search_path = %I, pg_temp', current_schema());
end
$$;
-- From the first product again, also where the backfill is on its way.
delete from product_event_backfill;
insert into product_event_backfill (last_id)
select '00000000-0000-0000-0000-000000000000' where exists (select from products);
