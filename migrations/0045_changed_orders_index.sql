-- no transaction
-- Orders that may be worth something else than when they were placed: see docs/decisions/figures.md. An order is not in
-- it when it is placed.
-- functions: 5ab580bdbd458d03
create index concurrently if not exists orders_changed_updated_at_idx
  on orders (updated_at)
  where (status_history -> 1) is not null
    and (status_history -> 0 -> 'imported') is null
    and status_history @? '$[*] ? (@.status == "cancelled" || @.status == "returned" || @.change.type == "returned" || @.change.state == "refunded" || exists (@.change.amount) || exists (@.change.refund))';
