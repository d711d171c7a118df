-- An entry is for people who look at one order: its key serves both them and those who write, where there were a long text and an index
-- beside it, and each cost more than the row.
drop index order_event_deliveries_order_id_idx;
alter table order_event_deliveries drop column event_id;
alter table order_event_deliveries add primary key (order_id, version);
