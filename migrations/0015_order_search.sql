-- For operators: everybody's orders, newest first, all of them or those of one status. The second also finds pending orders that expire.
create index orders_created_at_id_idx on orders (created_at desc, id desc);
create index orders_status_created_at_id_idx on orders (status, created_at desc, id desc);

-- Which orders have a line of a product. The index keeps statistics of its own, so the planner knows a hot product from a rare one.
create index orders_product_ids_idx on orders using gin (jsonb_path_query_array(items, '$[*].product_id') jsonb_path_ops);
