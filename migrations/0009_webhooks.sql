create table webhook_endpoints (
  id uuid primary key,
  url text not null,
  -- Null: every type.
  event_types text[],
  -- Encrypted under STOREFRONT_SECRET.
  sealed_secret text not null,
  -- The secret before a rotation, which signs as well until then.
  previous_sealed_secret text,
  previous_secret_until timestamptz(3),
  created_at timestamptz(3) not null default now(),
  -- Since when no delivery has succeeded; null while they succeed.
  failing_since timestamptz(3),
  disabled_at timestamptz(3),
  disabled_reason text,
  constraint webhook_endpoints_previous_secret_with_end check ((previous_sealed_secret is null) = (previous_secret_until is null)),
  constraint webhook_endpoints_disabled_with_reason check ((disabled_at is null) = (disabled_reason is null))
);

-- The events that some endpoint wanted, each once: a delivery can be repeated when the topic no longer has its event.
create table webhook_events (
  event_id text primary key,
  type text not null,
  -- The body of the request, byte for byte.
  body text not null,
  created_at timestamptz(3) not null default now()
);
create index webhook_events_created_at_idx on webhook_events (created_at);

-- One row per event and endpoint: the answer to "did they get it?".
create table webhook_deliveries (
  endpoint_id uuid not null references webhook_endpoints (id) on delete cascade,
  event_id text not null references webhook_events (event_id) on delete cascade,
  status text not null,
  attempts integer not null default 0,
  last_error text,
  queued_at timestamptz(3) not null,
  -- The time of the first attempt; the three days of retries count from here.
  first_tried_at timestamptz(3),
  delivered_at timestamptz(3),
  -- Counts the jobs made for the delivery; only the job with this number may make it.
  job_number integer not null default 1,
  primary key (endpoint_id, event_id),
  constraint webhook_deliveries_status_known check (status in ('queued', 'delivered', 'failed'))
);
create index webhook_deliveries_event_id_idx on webhook_deliveries (event_id);
create index webhook_deliveries_endpoint_id_status_queued_at_idx on webhook_deliveries (endpoint_id, status, queued_at);
