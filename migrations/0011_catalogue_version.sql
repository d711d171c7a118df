-- How often the catalogue has changed: the sum over all rows. A transaction counts in the row of its connection, so that
-- transactions which change the catalogue at once seldom wait for each other. See docs/decisions/0020-catalogue-version.md.
create table catalogue_versions (
  shard smallint primary key,
  changes bigint not null default 0,
  changed_at timestamptz(3) not null default now()
) with (fillfactor = 50);
insert into catalogue_versions (shard) select generate_series(0, 31);

-- What a cache in front of the store has to forget. Written in the transaction of the change, deleted once a job for it exists.
create table catalogue_changes (
  id bigint generated always as identity primary key,
  -- Null: too many to name.
  product_ids uuid[],
  changed_at timestamptz(3) not null default clock_timestamp()
);

create function products_note_change() returns trigger
  language plpgsql as $$
declare
  most constant integer := 200;
  ids uuid[];
begin
  select array_agg(id) into ids from (select id from changed limit most + 1) as named;
  if ids is null then
    return null;
  end if;
  update catalogue_versions
  set changes = changes + 1, changed_at = clock_timestamp()
  where shard = pg_backend_pid() % 32;
  insert into catalogue_changes (product_ids) values (case when cardinality(ids) <= most then ids end);
  perform pg_notify('storefront_catalogue', '');
  return null;
end
$$;

create trigger products_note_insert after insert on products
  referencing new table as changed
  for each statement execute function products_note_change();
create trigger products_note_update after update on products
  referencing new table as changed
  for each statement execute function products_note_change();
create trigger products_note_delete after delete on products
  referencing old table as changed
  for each statement execute function products_note_change();
