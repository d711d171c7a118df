-- Returns the words of an address: name, company, the phone's digits, and as one word each the postal code, a
-- reference, and the references and parcels of a history. A blank precedes each word.
create or replace function order_search_words(address jsonb, client_reference text, history jsonb) returns text
  language plpgsql immutable parallel safe as $$
declare
  codes text := concat_ws(' ', translate(address ->> 'postal_code', ' -', ''), translate(client_reference, ' -_./:#', ''));
  phone text := address ->> 'phone';
begin
  if history @? '$[1]' then
    codes := concat_ws(' ', codes, (
      select string_agg(translate(code, ' -_./:#', ''), ' ' order by code)
      from (
        select code #>> '{}' as code
        from (
          select jsonb_path_query(history, '$[*].tracking.number') as code
          union
          select jsonb_path_query(history, '$[*].reference')
          union
          select jsonb_path_query(history, '$[*].change.reference')
        ) as used
        limit 500
      ) as given
    ));
  end if;
  -- The zeros are those that a country's own numbers begin with.
  phone := ltrim(translate(replace(phone, '(0)', ''), ' +-()/.', ''), '0');
  if phone ~ '[^0-9]' then
    phone := ltrim(regexp_replace(phone, '[^0-9]', '', 'g'), '0');
  end if;
  return rtrim(concat_ws(' ', '', search_folded(concat_ws(' ', address ->> 'name', address ->> 'company', codes)), phone));
end
$$;

-- Returns the text by which operators find an order. A VAT number is one word of the billing address. See
-- docs/decisions/orders-search.md.
create or replace function order_search_text(
  shipping_address jsonb,
  client_reference text,
  status_history jsonb,
  billing_address jsonb,
  vat_number text
) returns text language sql immutable parallel safe as $$
  select order_search_words(shipping_address, client_reference, status_history)
    || case when num_nonnulls(billing_address, vat_number) = 0 then '' else order_search_words(billing_address, vat_number, null) end
$$;

-- A statement trigger, so that a batch of orders is one insert. It has the owner's rights, because no role may write
-- these rows.
create or replace function add_order_search_texts() returns trigger language plpgsql
  security definer
  set search_path from current
as $$
begin
  insert into order_search_texts (number, words)
  select number, order_search_text(shipping_address, client_reference, status_history, billing_address, vat_number) from added
  -- A write around the triggers may have left the text of a deleted order.
  on conflict (number) do update set words = excluded.words;
  return null;
end
$$;

-- Most changes of an order do not affect its text, and write nothing.
create or replace function change_order_search_texts() returns trigger language plpgsql
  security definer
  set search_path from current
  -- A plan from a time when the table was small must not read the whole table later.
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
as $$
begin
  insert into order_search_texts (number, words)
  select number, order_search_text(shipping_address, client_reference, status_history, billing_address, vat_number)
  from after
  where order_search_text(shipping_address, client_reference, status_history, billing_address, vat_number)
    is distinct from (select words from order_search_texts where order_search_texts.number = after.number)
  order by number
  on conflict (number) do update set words = excluded.words;
  return null;
end
$$;

create or replace function remove_order_search_texts() returns trigger language plpgsql
  security definer
  set search_path from current
as $$
begin
  delete from order_search_texts using removed where order_search_texts.number = removed.number;
  return null;
end
$$;

-- Examines up to `most` orders behind a number, and adds or corrects texts that are missing or differ. Orders that
-- somebody changes are left to the trigger. Returns the last number, null behind the last order, and the texts written.
create or replace function mend_order_search_texts(after bigint, most integer, out last bigint, out written bigint) language plpgsql
  security definer
  set search_path from current
  set enable_seqscan = off
as $$
declare
  numbers constant bigint[] := array(select number from orders where number > after order by number limit most);
  wrong bigint[];
begin
  last := numbers[cardinality(numbers)];
  select array_agg(orders.number order by orders.number) into wrong
  from orders
  -- A migration calls this before the two columns exist.
  cross join lateral to_jsonb(orders) as added
  left join order_search_texts as stored using (number)
  where orders.number = any(numbers)
    and order_search_text(shipping_address, client_reference, status_history, added -> 'billing_address', added ->> 'vat_number')
      is distinct from stored.words;
  with locked as materialized (
    select number,
      -- A joined value would be that of a row before it was locked.
      order_search_text(
        shipping_address, client_reference, status_history, to_jsonb(orders) -> 'billing_address', to_jsonb(orders) ->> 'vat_number'
      ) as words
    from orders
    where number = any(wrong)
    order by number
    for share skip locked
  )
  insert into order_search_texts (number, words)
  select number, words from locked
  on conflict (number) do update set words = excluded.words;
  get diagnostics written = row_count;
end
$$;
