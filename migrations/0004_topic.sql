-- The notification topic of a store without a broker: an append-only log.
create table topic_messages (
  -- Given out under an advisory lock, so that a reader never sees 8 before 7.
  sequence bigint generated always as identity primary key,
  -- The event id; a second message with the same id is dropped.
  id text not null,
  type text not null,
  subject text not null,
  -- Change-stream position of the commit that the event tells of.
  position text not null,
  event json not null,
  published_at timestamptz(3) not null default now(),
  constraint topic_messages_id_unique unique (id)
);
create index topic_messages_subject_idx on topic_messages (subject);

-- How far each subscriber has come.
create table topic_subscribers (
  name text primary key,
  sequence bigint not null,
  updated_at timestamptz(3) not null default now()
);
