-- How far each order event has come, as the parts of the pipeline tell it after the fact. A missing row or time means that it has not
-- happened or was not recorded: see docs/decisions/0034-timeline.md.
create table order_event_deliveries (
  event_id text primary key,
  order_id uuid not null,
  version integer not null,
  published_at timestamptz(3),
  lake_at timestamptz(3)
);
create index order_event_deliveries_order_id_idx on order_event_deliveries (order_id);

-- A mail that was given up says when.
alter table email_deliveries add column failed_at timestamptz(3);
