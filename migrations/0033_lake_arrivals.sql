-- When the messages of the topic's own table were in the lake: a row for each file, where there was one for each event. What is told by
-- event, `order_event_deliveries`, is left to a topic that is elsewhere. See docs/decisions/0034-timeline.md.
create table lake_arrivals (
  last_sequence bigint primary key,
  first_sequence bigint not null,
  at timestamptz(3) not null
);

insert into lake_arrivals (first_sequence, last_sequence, at)
select min(message.sequence), max(message.sequence), delivery.lake_at
from order_event_deliveries as delivery
join topic_messages as message on message.id = delivery.order_id::text || '.' || delivery.version
where delivery.lake_at is not null
group by delivery.lake_at
on conflict do nothing;
