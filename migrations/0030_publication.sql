-- See docs/decisions/catalogue-schedules.md.
alter table products
  add column status text not null default 'active',
  -- From when and until when an active product is in the shop; null: without a bound.
  add column published_at timestamptz(3),
  add column unpublished_at timestamptz(3),
  -- archived_at is set because the product is a draft or outside of its time; nobody has archived it. Written by the trigger below.
  add column is_withheld boolean not null default false,
  -- When the clock changes the product next. Written by the trigger below.
  add column changes_at timestamptz(3),
  add constraint products_status_known check (status in ('draft', 'active')) not valid;

-- The first trigger by name: others see the row as it becomes.
create trigger products_apply_schedule
  before insert or update of status, published_at, unpublished_at, archived_at, changes_at on products
  for each row when (new.status <> 'active' or new.published_at is not null or new.unpublished_at is not null)
  execute function products_apply_schedule();
