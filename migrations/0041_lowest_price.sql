-- The lowest price of the 30 days before each reduction that a product has now began (Directive 98/6/EC, Article 6a): {"EUR": 1490}, minor
-- units by currency. A currency is missing if its price is not reduced, or no earlier one is known; null: all are. See docs/decisions/0287.
alter table products add column lowest_prior_amounts jsonb;
alter table products add constraint products_lowest_prior_object check (jsonb_typeof(lowest_prior_amounts) = 'object') not valid;

-- The lowest of the prices in a currency that ended within 30 days before a time, as they are recorded; null for none. Each record has the
-- price that it ended, so the one with which the 30 days began is among them. Hours, because a day of a time zone may have 23.
create function lowest_ended_amount(wanted_id uuid, wanted_currency text, until timestamptz) returns bigint
language sql stable
-- A plan that was made while the table was small must not read the whole table later.
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

-- Also for programs that write products and know nothing of it, such as the release before.
create function products_set_lowest_price() returns trigger language plpgsql as $$
begin
  new.lowest_prior_amounts := (
    select jsonb_object_agg(currency, amount)
    from (
      select currency,
        case
          -- The reduction continues, at this price or a lower one.
          when was.compare_at > was.amount and now.amount <= was.amount then (old.lowest_prior_amounts ->> currency)::bigint
          -- It begins, or another one does, at a higher price. The price until now is in no record yet.
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
-- The first conditions are all that products pay for that are not reduced.
create trigger products_change_lowest_price before update of price_amount, price_currency, compare_at_amount, prices on products
  for each row when (
    (new.compare_at_amount is not null or old.lowest_prior_amounts is not null or new.prices @? '$.*.compare_at')
    and (old.price_amount, old.price_currency, old.compare_at_amount, old.prices)
      is distinct from (new.price_amount, new.price_currency, new.compare_at_amount, new.prices)
  )
  execute function products_set_lowest_price();
