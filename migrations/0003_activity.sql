-- What operators, keys and commands have changed; written in the transaction of the change. Nothing updates or deletes a row, and the role of
-- the API has no right to.
create table activities (
  id bigint generated always as identity primary key,
  at timestamptz(3) not null default now(),
  -- As in the events of orders: `admin` is an operator of any role, `system` a command on the machine of the store.
  actor_type text not null,
  actor_id text,
  -- The operation of the API (its operationId), or the command.
  action text not null,
  subject_type text not null,
  -- Null: the action has many subjects, and `after` counts them.
  subject_id text,
  -- What has changed, before and after. No secrets, and no personal data: an account is named by its id.
  before jsonb,
  after jsonb,
  request_id text,
  constraint activities_actor_known check (actor_type in ('admin', 'key', 'system'))
);
create index activities_at_id_idx on activities (at desc, id desc);
-- A command has no id: its actor is found as `system`.
create index activities_actor_at_id_idx on activities (coalesce(actor_id, actor_type), at desc, id desc);
create index activities_subject_id_at_id_idx on activities (subject_id, at desc, id desc);
create index activities_subject_type_at_id_idx on activities (subject_type, at desc, id desc);
create index activities_action_at_id_idx on activities (action, at desc, id desc);
