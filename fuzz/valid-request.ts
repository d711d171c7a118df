import fc from 'fast-check'
import { ORDER_STATUSES } from '../src/orders/order-status.ts'
import type { Operation, Schema } from './contract.ts'
import type { Judge } from './judge.ts'
import type { Account, Known, Resource } from './known.ts'
import { type FuzzRequest, queryPair } from './request.ts'
import { findBrokenRule } from './rules.ts'
import { type Hint, text, valuesOf } from './values.ts'

export const PASSWORD = 'a long enough passphrase'
const NEVER = '01900000-0000-7000-8000-000000000000'
/** The most bytes of a body. The document's schemas do not contain this limit. */
const MAX_BODY_BYTES = 12_000

interface Options {
  operation: Operation
  judge: Judge
  known: Known
}

/** Requests that the document allows, with ids, tokens and cursors from earlier answers. */
export function validRequest({ operation, judge, known }: Options): fc.Arbitrary<FuzzRequest> {
  const hint = hintsFrom(known, judge)
  return fc
    .record({
      who: callerAndResource(operation, known),
      query: fc.record(
        Object.fromEntries(
          operation.queryParameters.map(({ name, schema }) => [
            name,
            name === 'cursor' ? fc.constant('') : valuesOf(schema, judge, hint, name),
          ]),
        ),
        { requiredKeys: operation.queryParameters.filter(({ isRequired }) => isRequired).map(({ name }) => name), noNullPrototype: true },
      ),
      page: maybe(
        known.pages.filter(
          (page) => page.operation === operation.name && known.accounts.some(({ id }) => page.accountId === null || id === page.accountId),
        ),
        3,
      ),
      body: operation.body === null ? fc.constant(undefined) : bodyOf(operation.body.schema, operation, { judge, known, hint }),
      key: fc.option(fc.integer({ max: 1_000_000, min: 0 }).map((number) => `"key ${number % 50 === 0 ? 0 : number}"`)),
      etag: fc.integer({ min: 0, max: 9 }),
    })
    .map(({ who, query, page, body, key, etag }): FuzzRequest => {
      const { cursor: _, ...filters } = query
      const pairs = Object.entries(filters).flatMap(([name, values]) => [values].flat().map((value) => queryPair(name, String(value))))
      const account = page?.accountId === undefined ? who.account : (known.accounts.find(({ id }) => id === page.accountId) ?? who.account)
      const json = body === undefined ? null : correlate(operation, body, who.account)
      return {
        operation,
        method: operation.method,
        account: operation.isSecured ? account : null,
        isStranger: operation.isSecured && account === null,
        pathValues:
          page?.pathValues ??
          Object.fromEntries(
            operation.pathParameters.map(({ name }) => [name, (name === 'slug' ? who.resource?.slug : who.resource?.id) ?? NEVER]),
          ),
        query: page === null ? pairs : [...page.query, queryPair('cursor', page.cursor)],
        headers: [...conditionOf(operation, who.resource, etag), ...keyOf(operation, key)],
        authorization: null,
        contentType: body === undefined ? null : (operation.body?.type ?? null),
        bodyText: json === null ? null : typeof json === 'string' ? json : JSON.stringify(json),
        bodyBytes: null,
        isOdd: false,
      }
    })
    .filter((request) => (request.bodyText?.length ?? 0) <= MAX_BODY_BYTES && findBrokenRule(request) === null)
}

function maybe<T>(values: readonly T[], weight: number): fc.Arbitrary<T | null> {
  if (values.length === 0) return fc.constant(null)
  return fc.oneof({ arbitrary: fc.constant(null), weight }, { arbitrary: fc.constantFrom(...values), weight: 1 })
}

function callerAndResource(operation: Operation, known: Known): fc.Arbitrary<{ account: Account | null; resource: Resource | null }> {
  const resources = resourcesOf(operation, known)
  const fitting = known.accountsOf(operation.isForOperators ? 'admin' : 'customer')
  const anybody = maybe(known.accounts, 0)
  const caller =
    fitting.length === 0 ? anybody : fc.oneof({ arbitrary: fc.constantFrom(...fitting), weight: 9 }, { arbitrary: anybody, weight: 1 })
  const owned = resources.flatMap((resource) => {
    const owner = known.accounts.find(({ id }) => id === resource.ownerId)
    return owner === undefined ? [] : [{ account: owner, resource }]
  })
  const any = fc.record({ account: caller, resource: maybe(resources, resources.length === 0 ? 1 : 0) })
  if (owned.length === 0 || operation.isForOperators) return any
  return fc.oneof({ arbitrary: fc.constantFrom(...owned), weight: 6 }, { arbitrary: any, weight: 1 })
}

function resourcesOf({ path }: Operation, known: Known): Resource[] {
  if (path.includes('/products/')) return known.products
  if (path.includes('/categories/')) return known.categories
  if (path.includes('/orders/')) return known.orders
  if (path.includes('/webhooks/')) return known.webhooks
  return path.includes('/sessions/') ? known.sessions : []
}

function conditionOf({ headers, path }: Operation, resource: Resource | null, pick: number): [string, string][] {
  const parameter = headers.find(({ name }) => name === 'if-match')
  if (parameter === undefined || (pick > 7 && !parameter.isRequired)) return []
  const newest = (path.includes('/stock') ? resource?.stockEtags : resource?.etags)?.at(-1)
  return [['if-match', pick > 5 || newest === undefined ? '*' : newest]]
}

function keyOf({ headers }: Operation, key: string | null): [string, string][] {
  return key !== null && headers.some(({ name }) => name === 'idempotency-key') ? [['idempotency-key', key]] : []
}

function bodyOf(
  schema: Schema | null,
  operation: Operation,
  { judge, known, hint }: Omit<Options, 'operation'> & { hint: Hint },
): fc.Arbitrary<unknown> {
  if (schema !== null) return valuesOf(schema, judge, hint)
  return fc
    .array(lineOf(operation, known), { minLength: 1, maxLength: 4 })
    .map((lines) => lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
}

/** Lines that the document describes only in words. */
function lineOf({ path }: Operation, known: Known): fc.Arbitrary<unknown> {
  if (path.includes('/products/')) {
    return fc.record(
      { sku: sku, name: text(1, 40), category: text(1, 20), price: money, stock: fc.option(fc.integer({ min: 0, max: 500 })) },
      { requiredKeys: ['sku', 'name', 'category', 'price'], noNullPrototype: true },
    )
  }
  const orderIds = known.orders.length === 0 ? fc.uuid() : fc.constantFrom(...known.orders.map(({ id }) => id))
  return fc.record(
    { order_id: orderIds, to: fc.constantFrom(...ORDER_STATUSES.slice(1)), reason: text(1, 40) },
    { requiredKeys: ['order_id', 'to'], noNullPrototype: true },
  )
}

const currency = fc.oneof({ arbitrary: fc.constant('EUR'), weight: 15 }, { arbitrary: fc.constantFrom('USD', 'JPY', 'BHD'), weight: 1 })
const money = fc.record({ amount: fc.integer({ min: 0, max: 100_000 }), currency }, { noNullPrototype: true })
// Some values repeat, which causes `sku_taken`.
const sku = fc.oneof(
  fc.integer({ min: 0, max: 9 }).map((number) => `SKU-${number}`),
  fc.uuid().map((id) => `SKU-${id}`),
)

function hintsFrom(known: Known, judge: Judge): Hint {
  const some = (values: readonly unknown[], other: fc.Arbitrary<unknown>) =>
    values.length === 0 ? other : fc.oneof({ arbitrary: fc.constantFrom(...values), weight: 12 }, { arbitrary: other, weight: 1 })
  const emails = known.accounts.map(({ email }) => email)
  const fresh = fc.tuple(fc.uuid(), fc.constantFrom('example.com', 'münchen.example', 'EXAMPLE.org')).map((parts) => parts.join('@'))
  const productIds = some(
    known.products.map(({ id }) => id),
    fc.uuid(),
  )
  const hints: Record<string, () => fc.Arbitrary<unknown>> = {
    product_id: () => productIds,
    ids: () => fc.array(productIds, { minLength: 1, maxLength: 5 }).map((ids) => ids.join(',')),
    user_id: () =>
      some(
        known.accounts.map(({ id }) => id),
        fc.uuid(),
      ),
    order_id: () =>
      some(
        known.orders.map(({ id }) => id),
        fc.uuid(),
      ),
    email: () => (emails.length === 0 ? fresh : fc.oneof(fresh, fc.constantFrom(...emails))),
    password: () => fc.constant(PASSWORD),
    current_password: () => fc.constant(PASSWORD),
    new_password: () => fc.constantFrom(PASSWORD, `${PASSWORD} too`),
    refresh_token: () => some(known.refreshTokens, text(1, 60)),
    token: () => some(known.oneTimeTokens, text(1, 60)),
    currency: () => currency,
    image_url: () => fc.option(fc.webUrl()),
    country: () => fc.constantFrom('DE', 'GB', 'HK', 'US'),
    vat_number: () => fc.constantFrom('DE123456789', 'atu12345678', 'NL 123456789.B-01', 'AU51824753556'),
    sku: () => sku,
    // Some values repeat, which causes `slug_taken`.
    slug: () => fc.oneof(fc.constantFrom('Größe XL', 'カップ'), fc.uuid()),
    // An account's name that contains an address is refused.
    name: () => fc.array(fc.constantFrom(...'abcXYZ äñ字🙂'), { minLength: 1, maxLength: 20 }).map((letters) => `N${letters.join('')}`),
    q: () =>
      fc
        .array(fc.constantFrom('lamp', 'a', '-b', 'ñ字', "o'x", '"quoted"', '%', '\\', '<b>'), { minLength: 1, maxLength: 4 })
        .map((words) => words.join(' ')),
    reference: () =>
      fc.oneof(
        fc.integer({ min: 0, max: 5 }).map((number) => `reference-${number}`),
        text(1, 30).map((word) => `r${word}`),
      ),
    // A change that would raise the level above 2^53 is refused because of the current level, not because of its form.
    delta: () => fc.integer({ min: -5, max: 1_000 }).filter((delta) => delta !== 0),
    // Whichever of the two a product already has, its end is after its beginning.
    published_at: () => timeIn(2001, 2020),
    unpublished_at: () => timeIn(2031, 2050),
    // No host has a name in `.example`, so nobody receives the webhook's events.
    url: () => fc.tuple(fc.integer({ min: 0, max: 99 }), fc.webPath()).map(([host, path]) => `https://host-${host}.example${path}`),
    quantity: () =>
      fc.oneof({ arbitrary: fc.integer({ min: 1, max: 5 }), weight: 9 }, { arbitrary: fc.constantFrom(10_000, 9_999), weight: 1 }),
  }
  const hintOf: Hint = (name, schema) => {
    if (name === 'stock' && schema.type === 'integer') return fc.integer({ min: 0, max: 500 })
    if (name === 'translations' && schema.type === 'object') {
      const propertyNames = { type: 'string', enum: ['de', 'fr', 'pt-BR', 'zh-Hant'] }
      return valuesOf({ ...schema, propertyNames }, judge, hintOf)
    }
    if ((schema.type !== 'string' && schema.type !== 'integer') || !Object.hasOwn(hints, name)) return undefined
    return hints[name]?.().filter((value) => judge.isOf(schema, value))
  }
  return hintOf
}

const timeIn = (first: number, last: number) =>
  fc.date({ min: new Date(`${first}-01-01`), max: new Date(`${last}-01-01`), noInvalidDate: true }).map((time) => time.toISOString())

/** Changes values that are valid only together. */
function correlate(operation: Operation, body: unknown, account: Account | null): unknown {
  return deliverable(correlateOf(operation, body, account))
}

/** The body. If it has an address, the address has the parts that any country's post needs. */
function deliverable(body: unknown): unknown {
  if (typeof body !== 'object' || body === null) return body
  const needed = { city: 'London', region: 'LND', postal_code: 'N1 9GU' }
  const addresses = Object.entries(body).filter(([name, value]) => ADDRESSES.has(name) && value !== null)
  return { ...body, ...Object.fromEntries(addresses.map(([name, address]) => [name, { ...address, ...needed }])) }
}

const ADDRESSES = new Set(['address', 'shipping_address', 'billing_address'])

function correlateOf({ name }: Operation, body: unknown, account: Account | null): unknown {
  if (account === null || typeof body !== 'object' || body === null) return body
  if (name === 'POST /auth/login') return { ...body, email: account.email, password: account.password }
  // Most orders should be placed. Wrong totals and too many lines would refuse them.
  if (name === 'POST /orders') return shorten(body as { items: { quantity: number }[]; expected_total?: { amount: number } })
  if (name === 'POST /auth/password') return { ...body, current_password: account.password }
  return body
}

function shorten({ items, expected_total, ...body }: { items: { quantity: number }[]; expected_total?: { amount: number } }): object {
  const isKept = expected_total !== undefined && expected_total.amount % 4 === 0
  return { ...body, ...(isKept ? { expected_total } : {}), items: items[0]?.quantity === 3 ? items : items.slice(0, 1) }
}
