import type { Queryable } from './pool.ts'
import { readRevokes } from './sql-functions.ts'

/**
 * The API role's rights by table. A right that a release stops using stays for one more release, because processes of
 * the previous release may still run.
 */
export const API_RIGHTS: Readonly<Record<string, readonly Right[]>> = {
  migrations: ['select'],
  users: ['select', 'insert', 'update', 'delete'],
  deleted_accounts: ['select', 'insert', 'update', 'delete'],
  sessions: ['select', 'insert', 'update', 'delete'],
  session_revocations: ['select', 'insert', 'delete'],
  refresh_tokens: ['select', 'insert', 'update', 'delete'],
  signing_keys: ['select', 'insert', 'update', 'delete'],
  token_issuers: ['select', 'insert', 'update'],
  encryption_secrets: ['select', 'insert', 'update'],
  password_resets: ['select', 'insert', 'delete'],
  pending_registrations: ['select', 'insert', 'delete'],
  email_changes: ['select', 'insert', 'update', 'delete'],
  passkeys: ['select', 'insert', 'update', 'delete'],
  totp_authenticators: ['select', 'insert', 'update', 'delete'],
  recovery_codes: ['select', 'insert', 'update', 'delete'],
  auth_challenges: ['select', 'insert', 'update', 'delete'],
  imported_customers: ['select', 'insert', 'update'],
  imported_orders: ['select', 'insert'],
  oidc_identities: ['select', 'insert', 'delete'],
  oidc_sign_ins: ['select', 'insert', 'delete'],
  oidc_codes: ['select', 'insert', 'delete'],
  rate_limits: ['select', 'insert', 'update', 'delete'],
  products: ['select', 'insert', 'update'],
  categories: ['select', 'insert', 'update', 'delete'],
  product_categories: ['select', 'insert', 'update', 'delete'],
  product_pages: ['select', 'insert', 'update', 'delete'],
  product_slugs: ['select', 'insert', 'update', 'delete'],
  product_prices: ['select', 'insert', 'delete'],
  product_rankings: ['select', 'insert', 'update', 'delete'],
  product_groups: ['select', 'insert', 'update', 'delete'],
  inventory: ['select', 'insert', 'update'],
  stock_adjustments: ['select', 'insert'],
  // Functions with the owner's rights write it.
  product_events: ['select'],
  product_event_backfill: ['select'],
  stock_event_settings: ['select', 'update'],
  search_words: ['select', 'insert'],
  catalogue_versions: ['select', 'update'],
  catalogue_languages: ['select', 'insert', 'update'],
  catalogue_changes: ['select', 'insert', 'update', 'delete'],
  orders: ['select', 'insert', 'update'],
  order_notes: ['select', 'insert', 'delete'],
  order_numbers: ['usage'],
  pending_order_counts: ['select', 'insert', 'update'],
  guest_holds: ['select', 'insert', 'delete'],
  idempotency_keys: ['select', 'insert', 'update', 'delete'],
  // Triggers and functions with the owner's rights write it.
  order_search_texts: ['select'],
  order_repeats: ['select', 'insert', 'update', 'delete'],
  order_event_deliveries: ['select', 'insert'],
  lake_arrivals: ['select', 'insert'],
  topic_messages: ['select', 'insert'],
  topic_subscribers: ['select', 'insert', 'update'],
  // `lock table` needs the right to update.
  topic_epochs: ['select', 'insert', 'update'],
  catalogue_messages: ['select', 'insert'],
  catalogue_epochs: ['select', 'insert', 'update'],
  database_incarnations: ['select', 'update'],
  slot_positions: ['select', 'insert', 'update'],
  dead_letters: ['select', 'insert', 'update'],
  catalogue_dead_letters: ['select', 'insert', 'update', 'delete'],
  email_deliveries: ['select', 'insert', 'update'],
  account_mails: ['select', 'insert', 'update', 'delete'],
  staff_notices: ['select', 'insert', 'update', 'delete'],
  staff_mails: ['select', 'update'],
  cache_purges: ['select', 'insert', 'update', 'delete'],
  webhook_endpoints: ['select', 'insert', 'update', 'delete'],
  webhook_events: ['select', 'insert', 'delete'],
  webhook_deliveries: ['select', 'insert', 'update', 'delete'],
  customer_addresses: ['select', 'insert', 'update', 'delete'],
  activities: ['select', 'insert'],
  api_keys: ['select', 'insert', 'update'],
  audit_runs: ['select', 'insert', 'update', 'delete'],
  order_figures: ['select', 'insert', 'delete'],
  product_figures: ['select', 'insert', 'delete'],
  figure_progress: ['select', 'update'],
  figure_checkpoints: ['select', 'insert', 'delete'],
}

export async function findMissingRights(db: Queryable): Promise<string[]> {
  const wanted = Object.entries(API_RIGHTS).flatMap(([name, rights]) => rights.map((right) => ({ name, right })))
  const { rows } = await db.query<{ missing: string }>(
    `select format('%s on %s', wanted.right, wanted.name) as missing
    from unnest($1::text[], $2::text[]) as wanted (name, "right")
    left join pg_class on oid = to_regclass(wanted.name)
    where case relkind when 'S' then not has_sequence_privilege(oid, wanted.right)
      else oid is null or not has_table_privilege(oid, wanted.right) end
    union all
    select format('execute on %s', oid::regprocedure)
    from pg_proc
    -- A trigger needs no right to run.
    where prosecdef and pronamespace = current_schema()::regnamespace and prorettype <> 'trigger'::regtype
      and not has_function_privilege(oid, 'execute')
    order by missing`,
    [wanted.map(({ name }) => name), wanted.map(({ right }) => right)],
  )
  return rows.map(({ missing }) => missing)
}

type Right = 'select' | 'insert' | 'update' | 'delete' | 'usage'

// $1 role, $2 and $3 the rights above. Null when there is nothing to change.
const STATEMENTS = `
  with relations as (
    select
      class.oid,
      case class.relkind when 'S' then 'sequence' else 'table' end as kind,
      namespace.nspname as schema,
      class.relname as name,
      named.rights as wanted
    from pg_class as class
    join pg_namespace as namespace on namespace.oid = class.relnamespace
    left join unnest($2::text[], $3::text[]) as named (name, rights) on named.name = class.relname
    where $1 <> current_user and class.relkind in ('r', 'p', 'S', 'v', 'm') and namespace.nspname = current_schema()
  ), given as (
    select class.oid, string_agg(lower(acl.privilege_type), ', ' order by lower(acl.privilege_type) collate "C") as rights
    from pg_class as class
    cross join aclexplode(class.relacl) as acl
    where acl.grantee = (select oid from pg_roles where rolname = $1)
    group by class.oid
  ), needed as (
    select format('grant usage on schema %I to %I', nspname, $1) as statement
    from pg_namespace
    where $1 <> current_user and nspname = current_schema() and not has_schema_privilege($1, oid, 'usage')
    union all
    select format('revoke all on %s %I.%I from %I', kind, schema, name, $1)
    from relations
    join given using (oid)
    where wanted is distinct from given.rights
    union all
    select format('grant %s on %s %I.%I to %I', wanted, kind, schema, name, $1)
    from relations
    left join given using (oid)
    where wanted is distinct from given.rights and wanted is not null
    union all
    select format('grant execute on function %s to %I', oid::regprocedure, $1)
    from pg_proc
    where prosecdef and pronamespace = current_schema()::regnamespace and prorettype <> 'trigger'::regtype and $1 <> current_user
      and not exists (select from aclexplode(proacl) where grantee = (select oid from pg_roles where rolname = $1))
  )
  select string_agg(statement, '; ') as statements from needed`

/**
 * Revokes all other rights, also everybody's on functions with the owner's rights, which a restore opens. `owner` may
 * be `role`. Several processes may call it at once. Returns whether anything changed.
 */
export async function grantRights(owner: Queryable, role: string): Promise<boolean> {
  const rights = Object.values(API_RIGHTS).map((granted) => granted.toSorted().join(', '))
  const parameters = [role, Object.keys(API_RIGHTS), rights]
  const read = async () => {
    const { rows } = await owner.query<{ statements: string | null }>(STATEMENTS, parameters)
    return [rows[0]?.statements, await readRevokes(owner)].filter(Boolean).join('; ') || null
  }
  if ((await read()) === null) return false
  await owner.query('begin')
  try {
    // PostgreSQL refuses concurrent changes of one table's rights.
    await owner.query(`select pg_advisory_xact_lock(hashtextextended('storefront rights', 0))`)
    const statements = await read()
    if (statements !== null) await owner.query(statements)
    await owner.query('commit')
    return statements !== null
  } catch (error) {
    // The first error is the reason, even if the connection has broken.
    await owner.query('rollback').catch(() => {})
    throw error
  }
}
