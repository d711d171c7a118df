// One client that makes one call over 40 connections, for every public and customer route, and beside it a shopper at
// another address, with a list, a search, a login and an order. A row takes the seconds twice, in turns with the
// shopper alone: four minutes for all rows on an idle machine. The p99 is compared with that of all turns without the
// client, because a single turn has only a few requests of each kind. Options: --seconds 2 --connections 40 --only
// "POST /orders/quote" (a part of a route's name)
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { type Cleanup, withCleanup } from '../test/cleanup.ts'
import type { Kind, MixedLoad, PhaseResult } from './overload/mixed-load.ts'
import { startChild } from './rig/child.ts'
import { percentile, table } from './rig/measurement.ts'
import { openStore } from './rig/store.ts'

const PRODUCTS = 2_000
const SHOPPER = '192.0.2.1'
const GREEDY = '198.51.100.1'
/** The shopper's requests in a second. */
const PER_SECOND = 8
const ID = '01900000-0000-7000-8000-000000000000'

interface Operation {
  security?: object[]
  'x-required-scope'?: string
}

interface Ready {
  ids: string[]
  token: string
  order: string
}

/** An unregistered passkey in the correct form. */
const passkeyOf = (response: object) => ({ id: 'x'.repeat(43), rawId: 'x'.repeat(43), type: 'public-key', response })

/**
 * The most expensive call of each route that has a choice. The other routes are called with unknown ids or with
 * garbage.
 */
const COSTLIEST: Record<string, (ready: Ready) => { path?: string; body?: object }> = {
  'GET /products': () => ({ path: '/products?q=lamp%20ch&include=count&min_price={n}' }),
  'GET /products/facets': () => ({ path: '/products/facets?include=attributes&min_price={n}' }),
  'GET /products/{id}': ({ ids }) => ({ path: `/products/${ids[0]}` }),
  'GET /products/by-slug/{slug}': () => ({ path: '/products/by-slug/none-{n}' }),
  'GET /orders': () => ({ path: '/orders?limit=100' }),
  'GET /orders/{id}': ({ order }) => ({ path: `/orders/${order}` }),
  'POST /orders/quote': ({ ids }) => ({ body: { items: ids.slice(0, 1_000).map((product_id) => ({ product_id, quantity: 1 })) } }),
  'POST /orders': ({ ids }) => ({
    body: { items: ids.slice(0, 1_000).map((product_id) => ({ product_id, quantity: 1 })), expected_total: { amount: 1, currency: 'EUR' } },
  }),
  'POST /orders/{id}/cancel': () => ({ path: `/orders/${ID}/cancel` }),
  'POST /auth/login': () => ({ body: { email: 'nobody-{n}@shop.example', password: 'a wrong passphrase' } }),
  'POST /auth/register': () => ({ body: { email: 'new-{n}@shop.example', password: 'a long enough passphrase' } }),
  'POST /auth/guest': () => ({ body: { email: 'guest-{n}@shop.example' } }),
  'POST /auth/refresh': () => ({ body: { refresh_token: 'x'.repeat(43) } }),
  'POST /auth/second-factor': () => ({ body: { challenge: 'x'.repeat(43), totp_code: '123456' } }),
  'POST /auth/password-reset': () => ({ body: { email: 'nobody-{n}@shop.example' } }),
  'POST /auth/password-reset/confirm': () => ({ body: { token: 'x'.repeat(43), password: 'a long enough passphrase' } }),
  'POST /auth/verify-email': () => ({ body: { token: 'x'.repeat(43), password: 'a long enough passphrase' } }),
  'POST /auth/step-up': () => ({ body: { password: 'a wrong passphrase' } }),
  'POST /auth/password': () => ({ body: { current_password: 'a wrong passphrase', new_password: 'another long passphrase' } }),
  'POST /auth/passkey': () => ({
    body: { passkey: passkeyOf({ clientDataJSON: 'x'.repeat(4_096), authenticatorData: 'x'.repeat(4_096), signature: 'x'.repeat(2_048) }) },
  }),
  'POST /me/passkeys': () => ({
    body: { name: 'Phone', passkey: passkeyOf({ clientDataJSON: 'x'.repeat(4_096), attestationObject: 'x'.repeat(8_192) }) },
  }),
  'POST /auth/email/revert': () => ({ body: { token: 'x'.repeat(43) } }),
  'POST /auth/oidc/token': () => ({ body: { code: 'x'.repeat(43), code_verifier: 'y'.repeat(43) } }),
  'POST /me/sign-ins': () => ({ body: { code: 'x'.repeat(43), code_verifier: 'y'.repeat(43) } }),
  'POST /me/email': () => ({ body: { email: 'changed-{n}@shop.example' } }),
  'POST /me/email/confirm': () => ({ body: { token: 'x'.repeat(43) } }),
  'POST /me/totp/confirm': () => ({ body: { totp_code: '123456' } }),
  'PATCH /me/passkeys/{id}': () => ({ path: `/me/passkeys/${ID}`, body: { name: 'Phone {n}' } }),
  'PATCH /me/addresses/{id}': () => ({ path: `/me/addresses/${ID}`, body: { is_default: true } }),
  'PATCH /me': () => ({ body: { name: 'Greedy {n}' } }),
  'POST /me/addresses': () => ({ body: { address: { name: 'A', line1: 'B', city: 'C', postal_code: '1010', country: 'AT' } } }),
}
/** Calls that end a session or account, or use up the hour's exports. Each has its own account. */
const LAST = ['GET /me/export', 'POST /auth/logout', 'DELETE /me']
/** A request still unanswered this long after the end of a row counts as `none`. */
const PATIENCE_MS = 2_000
/** The largest ratio of the p99 beside the client to the one without it. */
const GOAL = 3

export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      seconds: { type: 'string', default: '2' },
      connections: { type: 'string', default: '40' },
      only: { type: 'string', default: '' },
    },
  })
  const [seconds, connections] = [Number(values.seconds), Number(values.connections)]
  await withCleanup(async (cleanup: Cleanup) => {
    const store = await openStore(cleanup)
    // Customers have their own networks. The store believes the header, like behind a proxy.
    const api = await store.start('api', { TRUST_PROXY: '1', BASE_URL: 'https://shop.example', RATE_LIMITS: 'on' })
    const send = sender(api.port)
    const { rows } = await store.pool.query<{ id: string }>(
      `with added as (
        insert into products (id, sku, name, category, price_amount, price_currency, in_stock, attributes)
        select gen_random_uuid(), 'SKU-' || n, (array['Lamp', 'Chair', 'Table'])[1 + n % 3] || ' ' || n, 'bench', 1000 + n, 'EUR', true,
          (select jsonb_object_agg('attribute ' || a, 'value ' || (n + a) % 20) from generate_series(1, 30) as a)
        from generate_series(1, $1) as n
        returning id
      )
      insert into inventory (product_id, available) select id, 1000000000 from added returning product_id as id`,
      [PRODUCTS],
    )
    await store.pool.query('analyze')
    const ids = rows.map(({ id }) => id)
    const register = async (address: string) => {
      const credentials = { email: `${crypto.randomUUID()}@shop.example`, password: 'a long enough passphrase' }
      const { access_token } = await send(address, 'POST', '/auth/register', credentials)
      return { ...credentials, token: access_token as string }
    }
    const [shopper, greedy] = [await register(SHOPPER), await register(GREEDY)]
    let order = ''
    for (let i = 0; i < 100; i++)
      order = (
        await send(GREEDY, 'POST', '/orders', { items: ids.slice(0, 20).map((product_id) => ({ product_id, quantity: 1 })) }, greedy.token)
      ).id as string
    const tokens = new Map<string, string>()
    for (const route of LAST) tokens.set(route, (await register(GREEDY)).token)
    const kinds = shopperKinds(shopper, ids)
    const [mine, theirs] = [startChild(cleanup, 'overload/mixed-load.ts'), startChild(cleanup, 'overload/mixed-load.ts')]
    const shop = async () => {
      const phases = [{ seconds, perSecond: PER_SECOND }]
      const load: MixedLoad = { port: api.port, connections: 16, kinds, phases, patienceMs: PATIENCE_MS }
      const [result] = await mine.ask<PhaseResult[]>(load)
      return result as PhaseResult
    }
    await shop()
    const found: { route: string; cells: string[]; beside: PhaseResult }[] = []
    const alone: PhaseResult[] = []
    for (const route of routes().filter((name) => name.includes(values.only))) {
      alone.push(await shop())
      const ready: Ready = { ids, token: tokens.get(route) ?? greedy.token, order }
      const kind: Kind = { name: route, weight: 1, requests: greedyRequests(route, ready) }
      const attack = theirs.ask<PhaseResult[]>({
        port: api.port,
        connections,
        kinds: [kind],
        phases: [{ seconds, perSecond: null }],
        patienceMs: PATIENCE_MS,
      })
      const [beside, [attacked]] = await Promise.all([shop(), attack])
      const sent = attacked?.kinds[0]
      const cells = [String(Math.round((sent?.offered ?? 0) / seconds)), statusesOf(sent?.statuses)]
      found.push({ route, cells, beside })
      console.log([route, ...cells, refusedOf(beside)].join('  '))
    }
    const usual = kinds.map((_, kind) =>
      percentile(
        alone.flatMap(({ kinds: all }) => all[kind]?.goodMs ?? []),
        0.99,
      ),
    )
    const header = [
      'Greedy call',
      'a second',
      'answers',
      ...kinds.map(({ name }, kind) => `${name}: p99 (${inMs(usual[kind])} without)`),
      'refused',
    ]
    const lines = found.map(({ route, cells, beside }) => [
      `\`${route}\``,
      ...cells,
      ...beside.kinds.map(({ p99 }) => inMs(p99)),
      refusedOf(beside),
    ])
    console.log(
      `\n${table(header, lines)}\nRefused without a client: ${
        alone
          .map(refusedOf)
          .filter((text) => text !== '0')
          .join(', ') || '0'
      }`,
    )
    const missed = found.flatMap(({ route, beside }) => {
      const late = beside.kinds.filter(({ p99 }, kind) => p99 > GOAL * (usual[kind] ?? 0)).map(({ name, p99 }) => `${name} ${inMs(p99)}`)
      const reasons = [...late, ...(refusedOf(beside) === '0' ? [] : [`refused ${refusedOf(beside)}`])]
      return reasons.length > 0 ? [`${route}: ${reasons.join(', ')}`] : []
    })
    console.log(`Beyond the goal (p99 of ${GOAL} times that without, nothing refused): ${missed.join('; ') || 'none'}`)
  })
}

/** Every public and customer route of the OpenAPI document, so a new route is included. */
function routes(): string[] {
  const document: { paths: Record<string, Record<string, Operation>> } = JSON.parse(
    readFileSync(new URL('../openapi.json', import.meta.url), 'utf8'),
  )
  const found = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, operation]) =>
      operation['x-required-scope'] === undefined && operation.security !== undefined ? [`${method.toUpperCase()} ${path}`] : [],
    ),
  )
  const unknown = Object.keys(COSTLIEST).filter((name) => !found.includes(name))
  if (unknown.length > 0) throw new Error(`openapi.json has no ${unknown.join(', ')}`)
  return [...found.filter((name) => !LAST.includes(name)), ...LAST.filter((name) => found.includes(name))]
}

function sender(port: number) {
  return async (address: string, method: string, path: string, body: object, token?: string): Promise<Record<string, unknown>> => {
    const headers = {
      'content-type': 'application/json',
      'x-forwarded-for': address,
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    }
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers, body: JSON.stringify(body) })
    if (!answer.ok) throw new Error(`${path} was answered with ${answer.status}: ${await answer.text()}`)
    return (await answer.json()) as Record<string, unknown>
  }
}

function request(address: string, method: string, path: string, { body, token }: { body?: object; token?: string } = {}): string {
  const text = body === undefined ? '' : JSON.stringify(body)
  const head = [`${method} ${path} HTTP/1.1`, 'host: shop.example', `x-forwarded-for: ${address}`]
  if (token !== undefined) head.push(`authorization: Bearer ${token}`)
  if (body !== undefined) head.push('content-type: application/json', `content-length: ${Buffer.byteLength(text)}`)
  return `${head.join('\r\n')}\r\n\r\n${text}`
}

const repeat = (count: number, make: (n: number) => string) => Array.from({ length: count }, (_, n) => make(n))

function shopperKinds({ token, email, password }: { token: string; email: string; password: string }, ids: readonly string[]): Kind[] {
  const order = (n: number) =>
    request(SHOPPER, 'POST', '/orders', { token, body: { items: [{ product_id: ids[n % ids.length], quantity: 1 }] } })
  return [
    { name: 'list', weight: 4, requests: repeat(2_000, (n) => request(SHOPPER, 'GET', `/products?limit=20&min_price=${n}`)) },
    { name: 'search', weight: 2, requests: repeat(2_000, (n) => request(SHOPPER, 'GET', `/products?q=lamp&min_price=${n}`)) },
    { name: 'login', weight: 1, requests: [request(SHOPPER, 'POST', '/auth/login', { body: { email, password } })] },
    { name: 'order', weight: 2, requests: repeat(200, order) },
  ]
}

function greedyRequests(route: string, ready: Ready): string[] {
  const [method = '', pattern = ''] = route.split(' ')
  const { path = pattern.replaceAll(/\{\w+\}/g, ID), body } = COSTLIEST[route]?.(ready) ?? {}
  const payload = body ?? (['POST', 'PATCH', 'PUT'].includes(method) ? {} : undefined)
  const isCounted = path.includes('{n}') || JSON.stringify(payload ?? {}).includes('{n}')
  const fill = (n: number) => {
    const filled = payload === undefined ? undefined : (JSON.parse(JSON.stringify(payload).replaceAll('{n}', String(n))) as object)
    return request(GREEDY, method, path.replaceAll('{n}', String(n)), {
      token: ready.token,
      ...(filled === undefined ? {} : { body: filled }),
    })
  }
  return repeat(isCounted ? 5_000 : 1, fill)
}

function statusesOf(statuses: Record<string, number> = {}): string {
  return Object.entries(statuses)
    .map(([status, count]) => `${status} × ${count}`)
    .join(', ')
}

const inMs = (ms = Number.NaN) => (Number.isNaN(ms) ? '-' : `${ms.toFixed(0)} ms`)

function refusedOf({ kinds }: PhaseResult): string {
  const refused = kinds.flatMap(({ name, statuses }) =>
    Object.entries(statuses).flatMap(([status, count]) => (status.startsWith('2') ? [] : [`${name} ${status} × ${count}`])),
  )
  return refused.join(', ') || '0'
}
