-- Grows whenever a process becomes the active one of a subscriber. What an earlier one still writes is refused by it: a process
-- that was paused for long does not know that another has taken over.
alter table topic_subscribers add column fence bigint not null default 0;
-- Null for a subscriber that keeps its own position, as the lake does.
alter table topic_subscribers alter column sequence drop not null;

-- Streams of the broker that this store has published to, oldest first. One that was lost and made anew counts from 1 again: the
-- epoch keeps its sequences above those of the lost one. See docs/decisions/0041-epochs-of-the-topic.md.
create table topic_epochs (
  epoch integer primary key,
  -- Name and time of creation, as the broker gives them.
  stream text not null,
  started_at timestamptz(3) not null default now(),
  constraint topic_epochs_stream_unique unique (stream),
  constraint topic_epochs_in_range check (epoch between 1 and 9000)
);
