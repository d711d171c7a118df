import type { Pool } from '../src/db/pool.ts'

/**
 * Records every change of stock and of an order's status with its transaction, by the fuzzer's own triggers,
 * independently of the store's records.
 */
export async function recordStock(pool: Pool): Promise<void> {
  await pool.query(RECORDING)
}

// The functions run with their owner's rights, so the store's role needs no rights on these tables.
const RECORDING = `
  create table fuzz_stock (
    position bigint generated always as identity,
    transaction_id xid8 not null,
    product_id uuid not null,
    available_before bigint,
    available_after bigint
  );
  create table fuzz_moves (
    position bigint generated always as identity,
    transaction_id xid8 not null,
    order_id uuid not null,
    status_before text,
    status_after text not null,
    items json not null
  );
  insert into fuzz_stock (transaction_id, product_id, available_after)
    select pg_current_xact_id(), product_id, available from inventory;

  create function fuzz_record_stock() returns trigger language plpgsql security definer set search_path = public as $$
  begin
    insert into fuzz_stock (transaction_id, product_id, available_before, available_after)
    values (pg_current_xact_id(), new.product_id, case when tg_op = 'UPDATE' then old.available end, new.available);
    return null;
  end $$;
  create trigger fuzz_record_stock after insert or update of available on inventory
    for each row execute function fuzz_record_stock();

  create function fuzz_record_move() returns trigger language plpgsql security definer set search_path = public as $$
  begin
    insert into fuzz_moves (transaction_id, order_id, status_before, status_after, items)
    values (pg_current_xact_id(), new.id, case when tg_op = 'UPDATE' then old.status end, new.status, new.items::json);
    return null;
  end $$;
  create trigger fuzz_record_move after insert or update on orders
    for each row execute function fuzz_record_move();
`

/**
 * The faults of stock and orders. Empty if nothing is wrong. Stock is conserved if each transaction that changes orders
 * changes the stock of each tracked product by the returned minus the taken units. All other changes are the operators'
 * own counts.
 */
export async function auditStock(pool: Pool): Promise<string[]> {
  const faults: string[] = []
  for (const [what, sql] of Object.entries(AUDITS)) {
    const { rows } = await pool.query<{ fault: string }>(sql)
    for (const { fault } of rows.slice(0, 5)) faults.push(`${what}: ${fault}`)
  }
  return faults
}

const AUDITS = {
  // A return may restock goods or not. An untracked product has no level that could change.
  'stock is not conserved': `
    with lines as (
      select moves.transaction_id, moves.order_id, (line ->> 'product_id')::uuid as product_id, (line ->> 'quantity')::bigint as quantity,
        status_before, status_after
      from fuzz_moves as moves, json_array_elements(items) as line
    ), expected as (
      select transaction_id, product_id,
        sum(case
          when status_before is null then -quantity
          when status_after = 'cancelled' and status_before <> 'cancelled' then quantity
          else 0 end) as change,
        sum(case when status_after = 'returned' and status_before <> 'returned' then quantity else 0 end) as returned
      from lines
      group by transaction_id, product_id
    ), actual as (
      select transaction_id, product_id, sum(available_after - available_before) as change
      from fuzz_stock
      where available_before is not null and available_after is not null
      group by transaction_id, product_id
    ), level as (
      select expected.*, actual.change as found,
        (select available_after from fuzz_stock as stock
          where stock.product_id = expected.product_id and stock.transaction_id < expected.transaction_id
          order by position desc limit 1) as available
      from expected left join actual using (transaction_id, product_id)
    )
    select 'product ' || product_id || ' changed by ' || coalesce(found, 0) || ' and not by ' || change ||
      case when returned > 0 then ' or ' || change + returned else '' end as fault
    from level
    where (found is not null or available is not null)
      and coalesce(found, 0) <> change
      and not (returned > 0 and coalesce(found, 0) between change and change + returned)
    order by transaction_id`,
  'the level is not what its changes add up to': `
    select 'product ' || product_id || ' has ' || coalesce(available::text, 'no level') as fault
    from inventory
    where available is distinct from (
      select available_after from fuzz_stock where fuzz_stock.product_id = inventory.product_id order by position desc limit 1)`,
  'stock below zero': `select 'product ' || product_id as fault from inventory where available < 0`,
  'an order line that cannot be': `
    select 'order ' || id || ' ' || line::text as fault
    from orders, json_array_elements(items::json) as line
    where (line ->> 'quantity')::numeric < 1 or (line ->> 'quantity')::numeric % 1 <> 0
      or (line #>> '{unit_price,amount}')::numeric < 0 or (line #>> '{unit_price,amount}')::numeric % 1 <> 0
      or (line #>> '{total,amount}')::numeric <> (line ->> 'quantity')::numeric * (line #>> '{unit_price,amount}')::numeric
      or line #>> '{total,currency}' <> orders.currency or line #>> '{unit_price,currency}' <> orders.currency`,
  'an order that does not add up': `
    select 'order ' || id || ' has the total ' || total_amount as fault
    from orders
    where total_amount <> (select sum((line #>> '{total,amount}')::numeric) from json_array_elements(items::json) as line)
      or json_array_length(items::json) = 0`,
  'a history that is not of the order': `
    select 'order ' || id || ' at version ' || version as fault
    from orders
    where jsonb_array_length(status_history::jsonb) <> version or status_history::jsonb -> -1 ->> 'status' <> status`,
  'a product that cannot be': `
    select 'product ' || id as fault
    from products where price_amount < 0 or price_currency !~ '^[A-Z]{3}$' or name = '' or sku = ''`,
  'a password that is no hash': `select 'account ' || id as fault from users where password_hash !~ '^[$]argon2id[$]'`,
}
