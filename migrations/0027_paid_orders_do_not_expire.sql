-- Whether the payment of an order, as `paymentOf` of src/orders/order-charges.ts derives it, is authorized, paid or partially refunded: the newest
-- payment is authorized, or the last state of any is one in which the shop has money. Such an order does not expire. The index below stores the
-- outcome, so it calls no other function of the store, and takes every history. See docs/decisions/0239-paid-orders-do-not-expire.md.
create function order_holds_money(status_history jsonb) returns boolean
  language sql immutable strict parallel safe as $$
  with payment as (
    select distinct on (change ->> 'provider', change ->> 'reference') change ->> 'state' as state, place
    from jsonb_path_query(status_history, '$[*].change ? (@.type == "payment")') with ordinality as report (change, place)
    order by change ->> 'provider', change ->> 'reference', place desc
  )
  select coalesce(bool_or(state in ('paid', 'partially_refunded')) or (array_agg(state order by place desc))[1] = 'authorized', false)
  from payment
$$;

-- The orders that expire, the oldest first: a run reads none that it would skip. Those of another shop wait for that shop's payment. An
-- order that is placed has one entry, and its payment is not looked for.
create index orders_expiring_created_at_id_idx on orders (created_at, id)
  where status = 'pending' and status_history -> 0 -> 'imported' is null
    and (status_history -> 1 is null or not order_holds_money(status_history));
-- The previous release finds pending orders by orders_status_number_idx meanwhile.
drop index orders_pending_created_at_id_idx;
