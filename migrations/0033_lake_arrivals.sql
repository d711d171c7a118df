-- When the messages of the topic's own table were in the lake: a row for each file, where there was one for each event. What was told by
-- event stays in `order_event_deliveries`, and what a topic that is elsewhere tells. See docs/decisions/0034-timeline.md.
create table lake_arrivals (
  last_sequence bigint primary key,
  first_sequence bigint not null,
  at timestamptz(3) not null
);
