-- Gives a product the state and the prices of its schedule at this moment, and the time of the next change. See
-- docs/decisions/catalogue-schedules.md.
create or replace function products_apply_schedule() returns trigger language plpgsql as $$
declare
  right_now constant timestamptz := clock_timestamp();
  regular record;
  sale record;
  kept jsonb := '[]';
begin
  new.changes_at := null;
  -- An operator has archived the product: no time brings it back.
  if new.archived_at is not null and not new.is_withheld then
    return new;
  end if;
  new.is_withheld := new.status <> 'active' or new.published_at > right_now is true or new.unpublished_at <= right_now is true;
  new.archived_at := case when new.is_withheld then coalesce(old.archived_at, right_now) end;
  if new.status = 'active' then
    select min(at) into new.changes_at from unnest(array[new.published_at, new.unpublished_at]) as at where at > right_now;
  end if;
  -- The regular prices return. An amount that this statement has changed is a regular one.
  for regular in
    select currency,
      case when given.amount = was.amount then kept_price.amount else given.amount end as amount,
      case when given.compare_at is not distinct from was.compare_at then kept_price.compare_at else given.compare_at end as compare_at
    from jsonb_each(new.regular_prices) as beside (currency, price)
    cross join jsonb_to_record(price) as kept_price (amount bigint, compare_at bigint)
    join all_prices(new.price_currency, new.price_amount, new.compare_at_amount, new.prices) as given using (currency)
    join all_prices(old.price_currency, old.price_amount, old.compare_at_amount, old.prices) as was using (currency)
  loop
    if regular.currency = new.price_currency then
      new.price_amount := regular.amount;
      new.compare_at_amount := regular.compare_at;
    else
      new.prices := new.prices || jsonb_build_object(
        regular.currency,
        jsonb_strip_nulls(jsonb_build_object('amount', regular.amount, 'compare_at', regular.compare_at))
      );
    end if;
  end loop;
  new.regular_prices := null;
  for sale in
    select element, given.currency, given.amount, given."from", given.until,
      usual.amount as usual_amount, usual.compare_at, greatest(usual.amount, usual.compare_at) as before
    from jsonb_array_elements(new.sale_prices) with ordinality as listed (element, place)
    cross join jsonb_to_record(element) as given (currency text, amount bigint, "from" timestamptz, until timestamptz)
    left join all_prices(new.price_currency, new.price_amount, new.compare_at_amount, new.prices) as usual using (currency)
    order by place
  loop
    -- An ended sale stays: prices may have fallen since.
    if sale.until <= right_now then
      kept := kept || jsonb_build_array(sale.element);
      continue;
    end if;
    if sale.amount < sale.usual_amount is not true then
      -- The changed price ends the sale, as it ends a reduction. A sale that is written now is refused.
      if new.sale_prices is distinct from old.sale_prices then
        raise check_violation using
          message = 'a sale price is not below the price of its currency',
          constraint = 'products_sales_below_price',
          table = tg_table_name,
          schema = tg_table_schema;
      end if;
      continue;
    end if;
    kept := kept || jsonb_build_array(sale.element);
    new.changes_at := least(new.changes_at, case when sale."from" > right_now then sale."from" end, sale.until);
    continue when sale."from" > right_now;
    new.regular_prices := coalesce(new.regular_prices, '{}') || jsonb_build_object(
      sale.currency,
      jsonb_strip_nulls(jsonb_build_object('amount', sale.usual_amount, 'compare_at', sale.compare_at))
    );
    if sale.currency = new.price_currency then
      new.price_amount := sale.amount;
      new.compare_at_amount := sale.before;
    else
      new.prices := new.prices || jsonb_build_object(
        sale.currency, jsonb_build_object('amount', sale.amount, 'compare_at', sale.before)
      );
    end if;
  end loop;
  new.sale_prices := kept;
  return new;
end
$$;
