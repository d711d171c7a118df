-- no transaction
-- functions: 4dfb1c1cdf75a92d
-- Orders that wait for their payment, newest first, for operators. An order without a change has no payment.
create index concurrently if not exists orders_unpaid_number_idx on orders (number desc)
where status in ('pending', 'confirmed') and (status_history -> 1 is null or not order_holds_money(status_history));
