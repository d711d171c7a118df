-- Lists of orders go by number, which ascends whatever a clock does: see docs/decisions/0151-orders-are-listed-by-number.md. The release
-- before, which lists by time, sorts one customer's orders meanwhile.
create index orders_user_id_number_idx on orders (user_id, number desc);
create index orders_user_id_status_number_idx on orders (user_id, status, number desc);
create index orders_status_number_idx on orders (status, number desc);
-- Pending orders that expire, the oldest first.
create index orders_pending_created_at_id_idx on orders (created_at, id) where status = 'pending';
drop index orders_user_id_created_at_id_idx, orders_user_id_status_created_at_id_idx, orders_status_created_at_id_idx;
