import { createHash } from 'node:crypto'
import type { Pool } from '../src/db/pool.ts'

/**
 * What the shop of `fillLargeShop` has nearly always, seldom and never: the values with which a statement may read
 * too much.
 */
export const LARGE_SHOP = {
  products: 200_000,
  orders: 200_000,
  customers: 50_000,
  /** An account with most of the orders, one with a few, one with none. */
  customers_with: { most: customerId(0), few: customerId(7), none: customerId(49_999) },
  /** Categories, brands and words that nearly all products have, and that a few have. */
  category: { most: 'Common', few: 'Rare' },
  brand: { most: 'Everywhere', few: 'Nowhere' },
  word: { most: 'common', half: 'even', few: 'scarce', none: 'xylophone' },
  attribute: { most: 'material=wood', few: 'material=gold', number: 'width_cm>=150' },
  group: 'every-rare-one',
  /** Most products have a price in euros and in pounds; a few in dollars and in francs; none in yen. */
  currency: { most: ['EUR', 'GBP'], few: ['USD', 'CHF'], none: 'JPY' },
} as const

const SEEDS = 1_000
/** The products of a group of variants, in a shop of any size. */
const VARIANTS = 200
/** The address of a few orders that were amended, all of the customer with the most. */
export const AMENDED = 'amended@example.com'
const RARE = 10
/** The orders of a shop of any size are spread over this time. */
const MINUTES = 1_000_000
/** Orders without a failed mail, webhook delivery, dead letter or amendment between two that have one. */
const FAILS = 20_000

export interface ShopSize {
  /** Whole thousands. */
  products: number
  /** Number of orders, at least two thousand; each customer of a fourth as many has some. */
  orders: number
}

/** The number-th customer's id, as the SQL below makes it. */
export function customerId(number: number): string {
  return `00000000-0000-4000-8000-${number.toString(16).padStart(12, '0')}`
}

/** The number-th product's id of the first thousand, as the SQL below makes it. The first ten are the rare ones. */
export function productId(number: number): string {
  return createHash('md5')
    .update(`product ${number}`)
    .digest('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/**
 * A shop that has grown, with one of everything nearly everywhere. Made inside PostgreSQL: a thousand products by the
 * store's triggers, their copies and all orders without, and the indexes afterwards. A smaller or larger shop has as
 * few of what is rare.
 */
export async function fillLargeShop(pool: Pool, size: ShopSize = LARGE_SHOP): Promise<void> {
  const client = await pool.connect()
  const run = async (statements: readonly string[]) => {
    for (const statement of statements) await client.query(statement)
  }
  try {
    await run(seed(size))
    const { rows: indexes } = await client.query<{ drop: string; create: string }>(
      `select format('drop index %I', indexrelid::regclass::text) as drop, pg_get_indexdef(indexrelid) as create
      from pg_index join pg_class on pg_class.oid = indrelid
      where relnamespace = current_schema()::regnamespace and relkind = 'r'
        and not exists (select 1 from pg_constraint where conindid = indexrelid)`,
    )
    await run(indexes.map((index) => index.drop))
    await run([...copiesOfProducts(size), ...customers(size), ...orders(size), ...others(size)])
    await run([`set maintenance_work_mem = '512MB'`, ...indexes.map((index) => index.create)])
    await run([
      'set session_replication_role = origin',
      'reset maintenance_work_mem',
      'vacuum (analyze, parallel 0) products, orders, order_search_texts, inventory, product_categories, product_prices, users, email_deliveries',
      'analyze topic_messages, order_event_deliveries, sessions, refresh_tokens, activities, stock_adjustments, product_figures, webhook_deliveries, webhook_events, idempotency_keys, order_notes, product_slugs, product_events, categories',
    ])
  } finally {
    client.release()
  }
}

const PRODUCT_COLUMNS = `name, description, category, image_url, price_amount, price_currency, in_stock, variant_group, options, updated_at,
  archived_at, search, attributes, brand, compare_at_amount, translations, translated_search, prices, lowest_prior_amounts`
const DAYS_OF_COPIES = 200
const COPY = `md5(seed.product_id::text || copy)::uuid`

const seed = ({ products }: ShopSize) => [
  `insert into categories (id, slug, name) values (gen_random_uuid(), 'common', 'Common'), (gen_random_uuid(), 'rare', 'Rare')`,
  `insert into products (id, sku, name, description, category, price_amount, price_currency, in_stock, variant_group, attributes, brand,
      compare_at_amount, translations, prices, created_at)
    select md5('product ' || n)::uuid, 'SKU-' || n,
      case when is_rare then 'Scarce lamp ' else 'Common lamp ' || case when n % 2 = 0 then 'even ' else 'odd ' end end || n,
      'A product of the shop number' || n % 100 || ' with words' || n % 7,
      case when is_rare then 'Rare' else 'Common' end, 100 + n * 37 % 9973, case when is_rare then 'USD' else 'EUR' end, not is_rare,
      case when is_rare then 'every-rare-one' when n % 3 = 0 then 'group-' || n / 3 / ${Math.ceil((VARIANTS * SEEDS) / products)} end,
      jsonb_build_object('material', case when is_rare then 'gold' else 'wood' end, 'vegan', true, 'width_cm', n % 300),
      case when is_rare then 'Nowhere' else 'Everywhere' end, case when n % 4 = 0 then 20000 end,
      case when n % 4 = 0 then jsonb_build_object('de', jsonb_build_object('name', 'Lampe ' || n)) else '{}' end,
      jsonb_build_object(case when is_rare then 'CHF' else 'GBP' end, jsonb_build_object('amount', 90 + n)),
      date_trunc('milliseconds', now()) - make_interval(days => 400, secs => n * 86.4)
    from generate_series(1, ${SEEDS}) as n, lateral (select n <= ${RARE} as is_rare) as rarity`,
  `insert into inventory (product_id, available) select id, case when category = 'Rare' then 0 else 100 end from products`,
  `select record_product_events(array(select id from products), null)`,
]

function copiesOfProducts({ products }: ShopSize): string[] {
  const copies = products / SEEDS
  const copied = `join products as original on original.id = seed.product_id and original.category <> 'Rare'
    cross join generate_series(2, ${copies}) as copy`
  return [
    `set session_replication_role = replica`,
    `insert into products (id, sku, created_at, ${PRODUCT_COLUMNS})
    select md5(id::text || copy)::uuid, sku || '-' || copy, created_at + make_interval(secs => copy * ${(DAYS_OF_COPIES * 86_400) / copies}), ${PRODUCT_COLUMNS}
    from products cross join generate_series(2, ${copies}) as copy
    where category <> 'Rare'`,
    `insert into inventory (product_id, available, version) select ${COPY}, seed.available, seed.version from inventory as seed ${copied}`,
    `insert into product_categories (product_id, category_id, position, is_listed, price_amount, created_at, name)
    select ${COPY}, seed.category_id, seed.position, seed.is_listed, seed.price_amount, seed.created_at + make_interval(secs => copy * ${(DAYS_OF_COPIES * 86_400) / copies}), seed.name
    from product_categories as seed ${copied}`,
    `insert into product_slugs (slug, product_id) select seed.slug || '-' || copy, ${COPY} from product_slugs as seed ${copied}`,
    `insert into product_prices (product_id, currency, amount) select ${COPY}, seed.currency, seed.amount from product_prices as seed ${copied}`,
    `insert into product_events (product_id, stream, version, type, occurred_at, data)
    select ${COPY}, seed.stream, seed.version, seed.type, seed.occurred_at, replace(seed.data::text, seed.product_id::text, ${COPY}::text)::json
    from product_events as seed ${copied}`,
  ]
}

const ID_OF = (number: string) => `('00000000-0000-4000-8000-' || lpad(to_hex(${number}), 12, '0'))::uuid`

function customers({ orders }: ShopSize): string[] {
  const count = orders / 4
  return [
    `insert into users (id, email, name, role, email_verified_at, created_at)
    select ${ID_OF('n')}, 'customer' || n || '@example.com', 'Customer ' || n, 'customer', now(), now() - make_interval(mins => n)
    from generate_series(0, ${count - 1}) as n`,
    `insert into users (id, email, role, owner_id, created_at)
    select md5('guest ' || n)::uuid, 'customer' || n || '@example.com', 'guest', case when n % 2 = 0 then ${ID_OF('n')} end, now()
    from generate_series(0, ${count / 10 - 1}) as n`,
    `insert into sessions (id, user_id, expires_at, revoked_at)
    select md5('session ' || n)::uuid, ${ID_OF('n')}, now() + make_interval(days => 29), case when n % 2 = 0 then now() end
    from generate_series(0, ${count - 1}) as n`,
    `insert into refresh_tokens (token_hash, session_id, expires_at) select sha256(id::text::bytea), id, expires_at from sessions`,
  ]
}

/** Most recipients have one family name, the oldest thousandth another one. A two-hundredth has each first name. */
const ADDRESS = `jsonb_build_object('name', format('%s %s', initcap(translate(substr(md5((n % 200)::text), 1, 6), '0123456789', 'ghijklmnop')),
      case when n <= 200 then 'Scarce' when n % 10 < 7 then 'Common' else initcap(translate(substr(md5(n::text), 1, 7), '0123456789', 'aeiourstln')) end),
    'line1', n || ' Long Street', 'city', 'Town', 'postal_code', 'AB' || n % 5000, 'country', 'GB', 'phone', '+44 20 ' || 70000000 + n)`

/**
 * Nearly all are delivered; the newest are on their way, and the oldest were cancelled. Two versions each, but for
 * the pending ones.
 */
function orders({ orders: count }: ShopSize): string[] {
  return [
    `insert into orders (id, number, user_id, status, items, product_ids, total_amount, currency, client_reference, shipping_address, email, version,
      status_history, created_at, updated_at)
    select ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, nextval('order_numbers'),
      case when n % 10 < 7 then ${ID_OF('0')} else ${ID_OF(`n % ${count / 4 - 1}`)} end, status,
      format('[{"product_id":"%s","sku":"SKU","name":"A lamp","category":"Common","quantity":1,"unit_price":%2$s,"total":%2$s}]', product,
        '{"amount":1250,"currency":"EUR"}')::json,
      array[product], 1250, 'EUR', 'cart-' || n, ${ADDRESS}, case when n % ${FAILS} = 0 then '${AMENDED}' end, case status when 'pending' then 1 else 2 end,
      format('[%s]', concat_ws(',', format(step, 'pending'), case when status <> 'pending' then format(step, status) end))::jsonb, at, at
    from generate_series(1, ${count}) as n,
      lateral (select
        case when n <= 100 then 'cancelled' when n > ${count - 100} then 'pending' when n > ${count - 500} then 'confirmed' when n > ${count - 1000} then 'shipped'
          when n % 50000 = 0 then 'returned' else 'delivered' end as status,
        date_trunc('milliseconds', now() - make_interval(secs => (${count} - n) * ${(60 * MINUTES) / count})) as at,
        md5('product ' || case when n % 10 < 8 then 11 else 11 + n % 900 end)::uuid as product) as placed,
      lateral (select format('{"status":"%%s","at":"%s","reason":null,"actor":{"type":"system","id":null}}',
        to_char(at, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) as step) as history`,
    `insert into order_search_texts select number, order_search_text(shipping_address, client_reference, status_history, billing_address, vat_number) from orders`,
    `insert into pending_order_counts select user_id, count(*) from orders where status = 'pending' group by user_id`,
    `insert into topic_messages (id, position, event, published_at)
    select orders.id || '.' || change, '0/0', '{}', orders.updated_at
    from orders cross join generate_series(1, orders.version) as change
    order by orders.created_at, change`,
    `insert into order_event_deliveries (order_id, version, sequence, published_at)
    select orders.id, change, row_number() over (order by orders.created_at, change), orders.updated_at
    from orders cross join generate_series(1, orders.version) as change`,
    `insert into email_deliveries (event_id, order_id, user_id, event_type, status, queued_at, send_after, sent_at)
    select id || '.' || version, id, user_id, 'order.' || case status when 'pending' then 'created' else status end, case when number % ${FAILS} = 0 then 'failed' else 'sent' end, updated_at, updated_at, updated_at
    from orders`,
    `insert into idempotency_keys (user_id, key, fingerprint, order_id, response, created_at)
    select user_id, 'key ' || number, '', id, '{}', now() from orders order by number desc limit 20000`,
    `insert into order_notes (id, order_id, author_type, text)
    select md5('note ' || n)::uuid, (select id from orders order by number limit 1), 'system', 'A note' from generate_series(1, 10000) as n`,
  ]
}

function others({ products, orders }: ShopSize): string[] {
  return [
    `insert into activities (at, actor_type, action, subject_type, subject_id)
    select now() - make_interval(secs => n), 'system',
      case when n % 50000 = 0 then 'createOperator' else 'changeProduct' end, 'product', md5('product ' || n % 10)::uuid::text
    from generate_series(1, ${orders / 2}) as n`,
    `insert into stock_adjustments (product_id, version, kind, available_before, available_after, reference, actor_type, created_at)
    select md5('product 11')::uuid, n, 'adjustment', n, n + 1, 'reference-' || n, 'system', now() - make_interval(secs => ${products / 2} - n)
    from generate_series(1, ${products / 2}) as n`,
    `update inventory set version = ${products / 2 + 1} where product_id = md5('product 11')::uuid`,
    `insert into order_figures (minute, currency, orders, revenue, net_revenue) select minute, 'EUR', 20, 25000, 25000 from generate_series(date_trunc('minute', now()) - interval '7 days', now(), interval '1 minute') as minute`,
    `insert into product_figures
    select slice, md5('product ' || n)::uuid, 'EUR', n, n * 1250
    from generate_series(date_bin('10 minutes', now(), '2000-01-01') - interval '7 days', now(), interval '10 minutes') as slice, generate_series(11, 110) as n`,
    `insert into product_rankings (sort, category_id, product_ids)
    select sort, category.id, ids
    from (select array_agg(md5('product ' || n)::uuid order by n) as ids from generate_series(11, 210) as n) as ranked
    cross join (values ('best_selling', null), ('best_selling', 'Common'), ('position', 'Common')) as list (sort, name)
    left join categories as category on category.name = list.name`,
    `update figure_progress
    set order_number = (select max(number) from orders), filled_from = now() - interval '61 days', changed_at = now()`,
    `insert into webhook_endpoints (id, url, sealed_secret, disabled_at, disabled_reason)
    values (md5('endpoint')::uuid, 'https://hooks.example', 'none', now(), 'a test')`,
    `insert into webhook_deliveries (endpoint_id, event_id, status, attempts, queued_at)
    select md5('endpoint')::uuid, id || '.1', case when number % ${FAILS} = 0 then 'failed' else 'delivered' end, 1, updated_at from orders`,
    `insert into webhook_events (event_id, type, body, created_at) select id || '.1', 'order.placed', '{}', now() from orders where number % 2 = 0`,
  ]
}
