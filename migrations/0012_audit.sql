-- Runs of `storefront verify` and `storefront replay`, which record themselves: the console shows them, also those of the command line.
create table audit_runs (
  id uuid primary key,
  kind text not null,
  -- As typed, without the path of the program.
  command text not null,
  -- The operator who started it in the console; null: the command line.
  started_by uuid,
  started_at timestamptz(3) not null default now(),
  -- What it does now.
  progress text,
  -- By the database's clock. The process of a run whose heartbeat is old has died.
  heartbeat_at timestamptz(3) not null default now(),
  finished_at timestamptz(3),
  -- Null when the process was killed.
  exit_status integer,
  -- Null for a run that failed before it had a result.
  result jsonb,
  -- What it printed, or why it failed.
  output text,
  constraint audit_runs_kind_known check (kind in ('verify', 'replay')),
  constraint audit_runs_texts_bounded check (
    length(command) <= 200 and length(progress) <= 200 and length(output) <= 20000 and pg_column_size(result) <= 1000000
  )
);
create index audit_runs_kind_started_at_idx on audit_runs (kind, started_at, id);
create index audit_runs_started_at_idx on audit_runs (started_at, id);
-- Two operators, or two processes of the API, cannot both start one. A command line is never refused.
create unique index audit_runs_one_started_in_console on audit_runs (kind) where finished_at is null and started_by is not null;
