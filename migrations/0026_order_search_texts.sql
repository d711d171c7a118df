-- What operators find orders by: see docs/decisions/orders-search.md. Triggers of `orders` maintain it.
create table order_search_texts (
  -- No foreign key, as in order_notes.
  number bigint primary key,
  words text not null
);
-- The era makes a word that many orders have cheap to find among the newest ones: see find-orders.ts.
create index order_search_texts_words_idx on order_search_texts using gin (words gin_trgm_ops, (array[number / 32768]));

create trigger orders_add_search_texts after insert on orders
  referencing new table as added for each statement execute function add_order_search_texts();
create trigger orders_change_search_texts after update on orders
  referencing new table as after for each statement execute function change_order_search_texts();
create trigger orders_remove_search_texts after delete on orders
  referencing old table as removed for each statement execute function remove_order_search_texts();
