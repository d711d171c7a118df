-- Returns the attributes of a product as terms to filter by: each name, each name=value, and each value of a list.
create or replace function attribute_terms(attributes jsonb) returns text[]
  language plpgsql immutable strict parallel safe as $$
begin
  return array(
    -- The API's bounds are below this one, and the index refuses longer terms.
    select left(term, 560)
    from jsonb_each(attributes) as attribute (name, value)
    cross join lateral (
      select name
      union all
      select name || '=' || case jsonb_typeof(value) when 'number' then trim_scale(value::numeric)::text else value #>> '{}' end
      where jsonb_typeof(value) <> 'array'
      union all
      select name || '=' || element
      from jsonb_array_elements_text(case jsonb_typeof(value) when 'array' then value else '[]' end) as list (element)
    ) as terms (term)
  );
end
$$;

create or replace function products_index_prices() returns trigger
  language plpgsql
  -- A plan from a time when the table was small must not read the whole table later.
  set enable_seqscan = off
as $$
begin
  if tg_op = 'UPDATE' then
    if not exists (select from changed where prices <> '{}') and not exists (select from before where prices <> '{}') then
      return null;
    end if;
    delete from product_prices
    using before
    join changed using (id)
    where product_prices.product_id = changed.id
      and (before.prices, before.price_currency, before.archived_at is null)
        is distinct from (changed.prices, changed.price_currency, changed.archived_at is null);
    insert into product_prices (product_id, currency, amount)
    select changed.id, price.currency, (price.value ->> 'amount')::bigint
    from changed
    join before using (id)
    cross join jsonb_each(changed.prices) as price (currency, value)
    where changed.archived_at is null
      -- The own price takes precedence over another one in its currency.
      and price.currency <> changed.price_currency
      and (before.prices, before.price_currency, before.archived_at is null)
        is distinct from (changed.prices, changed.price_currency, changed.archived_at is null);
  elsif exists (select from changed where prices <> '{}') then
    insert into product_prices (product_id, currency, amount)
    select changed.id, price.currency, (price.value ->> 'amount')::bigint
    from changed
    cross join jsonb_each(changed.prices) as price (currency, value)
    where changed.archived_at is null and price.currency <> changed.price_currency;
  end if;
  return null;
end
$$;

-- Returns the prices of a product in all currencies, from the columns of its row. The own price takes precedence over
-- another one in its currency.
create or replace function all_prices(own_currency text, own_amount bigint, own_compare_at bigint, others jsonb)
returns table (currency text, amount bigint, compare_at bigint) language sql immutable parallel safe as $$
  select own_currency, own_amount, own_compare_at
  union all
  select other.key, (other.value ->> 'amount')::bigint, (other.value ->> 'compare_at')::bigint
  from jsonb_each(others) as other
  where other.key <> own_currency
$$;

-- Returns the lowest price in a currency that ended within 30 days before a time, null for none. Each record has the
-- price that it ended, so the price at the beginning of the 30 days is among them. The bound is in hours, because a day
-- may have 23 of them.
create or replace function lowest_ended_amount(wanted_id uuid, wanted_currency text, until timestamptz) returns bigint
language sql stable
-- A plan from a time when the table was small must not read the whole table later.
set enable_seqscan = off
as $$
  select min((data -> 'previous_price' ->> 'amount')::bigint)
  from product_events
  where product_id = wanted_id
    and type = 'price.changed'
    and occurred_at > until - interval '720 hours'
    and occurred_at <= until
    and data -> 'previous_price' ->> 'currency' = wanted_currency
$$;

-- A trigger covers every way of changing a price.
create or replace function products_set_lowest_price() returns trigger language plpgsql as $$
begin
  new.lowest_prior_amounts := (
    select jsonb_object_agg(currency, amount)
    from (
      select currency,
        case
          -- The reduction continues at this price or a lower one. A reduction that a product was created with had no
          -- earlier price.
          when was.compare_at > was.amount
            and (now.amount = was.amount or now.amount < was.amount and old.lowest_prior_amounts ? currency)
            then (old.lowest_prior_amounts ->> currency)::bigint
          -- A reduction begins, or another one at a higher price. No record has the price until now yet.
          else least(was.amount, lowest_ended_amount(new.id, currency, clock_timestamp()))
        end as amount
      from all_prices(new.price_currency, new.price_amount, new.compare_at_amount, new.prices) as now
      left join all_prices(old.price_currency, old.price_amount, old.compare_at_amount, old.prices) as was using (currency)
      where now.compare_at > now.amount
    ) as reduced
    where amount is not null
  );
  return new;
end
$$;
