-- An event is noted with the sequence of its message, by which `lake_arrivals` tells when it was in the lake. A topic that was lost and
-- made anew has it at another sequence: then it is noted again. What was noted before has no sequence, and its time beside it, which
-- nothing writes any more. See docs/decisions/0034-timeline.md.
alter table order_event_deliveries add column sequence bigint not null default 0;
alter table order_event_deliveries drop constraint order_event_deliveries_pkey;
alter table order_event_deliveries add primary key (order_id, version, sequence);
