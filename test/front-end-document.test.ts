import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { eventually } from './eventually.ts'
import { startSmtpServer } from './smtp-server.ts'
import { startStore, type TestStore } from './store.ts'

const DOCUMENT = readFileSync(new URL('../docs/shop/front-end.md', import.meta.url), 'utf8')
const PASSWORD = 'a long enough passphrase'

interface Order {
  id: string
  version: number
  status: string
}
interface Page {
  data: { id: string }[]
}
interface Shop {
  call(method: string, path: string, options?: object): Promise<{ email: string; data: Order[] }>
  products(query?: Record<string, string>): Promise<Page>
  each(readPage: (cursor: string | null) => Promise<Page>): AsyncIterable<{ id: string }>
  register(body: object): Promise<{ user?: { email: string }; status?: string }>
  verifyEmail(token: string, password: string): Promise<{ user: { email: string } }>
  login(email: string, password: string): Promise<unknown>
  guest(email: string): Promise<{ user: { role: string } }>
  logout(): Promise<void>
  order(body: object, key: string): Promise<Order>
  cancel(order: Order): Promise<Order>
}
type CreateShop = (base: string, storage: Storage, send: typeof fetch) => Shop

const MODULE = new URL('../docs/shop/shop-client.js', import.meta.url).href
const { createShop } = (await import(MODULE)) as { createShop: CreateShop }
const store = await startStore({ after })
const products = await Promise.all(Array.from({ length: 7 }, () => store.addProduct({ stock: null })))

const originOf = ({ port }: TestStore) => `http://127.0.0.1:${port}`

/** A page of the shop: its client, what it keeps, and what it sent. `send` may lose answers. */
function openPage(of: TestStore = store, send: (sent: Promise<Response>, url: string) => Promise<Response> = (sent) => sent) {
  const kept = new Map<string, string>()
  const storage = {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key),
  } as Storage
  const sent: string[] = []
  const shop = createShop(originOf(of), storage, (url, init) => {
    sent.push(`${init?.method} ${new URL(String(url)).pathname}`)
    return send(fetch(url, init), String(url))
  })
  const count = (call: string) => sent.filter((line) => line === call).length
  return { shop, kept, count }
}

const register = async ({ shop }: ReturnType<typeof openPage>) => {
  const email = `${randomUUID()}@example.com`
  await shop.register({ email, password: PASSWORD, name: 'Ada' })
  return email
}
const items = [{ product_id: products[0]?.id ?? '', quantity: 1 }]
const refusedAs = (code: string) => (error: Error) => 'code' in error && error.code === code

test('the document’s client reads a list page by page, each item once', async () => {
  const { shop } = openPage()
  const seen: string[] = []
  for await (const { id } of shop.each((cursor) => shop.products({ limit: '3', ...(cursor !== null && { cursor }) }))) seen.push(id)
  assert.deepEqual(seen.toSorted(), products.map(({ id }) => id).toSorted())
})

test('calls that meet an ended access token refresh once between them; a session that is over asks for the login', async () => {
  const page = openPage()
  const email = await register(page)
  const again = openPage()
  again.kept.set('refresh_token', page.kept.get('refresh_token') ?? '')
  const accounts = await Promise.all(Array.from({ length: 5 }, () => again.shop.call('GET', '/me')))
  assert.ok(accounts.every((account) => account.email === email))
  assert.equal(again.count('POST /auth/refresh'), 1)

  // The session is ended elsewhere: the access token is refused within a second, then the refresh token.
  await store.pool.query('update sessions set revoked_at = now() where user_id = (select id from users where email = $1)', [email])
  await eventually(
    async () => (await again.shop.call('GET', '/me').catch((error: { code: string }) => error.code)) === 'invalid_refresh_token',
    {
      what: 'the end of the session',
    },
  )
  assert.equal(again.kept.size, 0)
  await assert.rejects(again.shop.call('GET', '/me'), refusedAs('unauthenticated'))
  await again.shop.login(email, PASSWORD)
  assert.equal((await again.shop.call('GET', '/me')).email, email)
  await again.shop.logout()
  assert.equal(again.kept.size, 0)
})

test('an order whose answers are lost is placed once; a refusal is not repeated', async () => {
  let lost = 0
  const page = openPage(store, async (sent, url) => {
    const answer = await sent
    if (!url.endsWith('/orders') || lost++ >= 2) return answer
    throw new TypeError('fetch failed')
  })
  await register(page)
  const key = randomUUID()
  const order = await page.shop.order({ items }, key)
  assert.equal(page.count('POST /orders'), 3)
  assert.equal((await page.shop.order({ items }, key)).id, order.id)
  assert.equal((await page.shop.call('GET', '/orders')).data.length, 1)

  const tries = page.count('POST /orders')
  await assert.rejects(page.shop.order({ items: [...items, ...items] }, key), refusedAs('idempotency_key_reused'))
  const unknown = { items: [{ product_id: randomUUID(), quantity: 1 }] }
  const other = randomUUID()
  await assert.rejects(page.shop.order(unknown, other), refusedAs('unknown_product'))
  assert.equal(page.count('POST /orders'), tries + 2)
  assert.notEqual((await page.shop.order({ items }, other)).id, order.id, 'the key of a refusal is free')

  await assert.rejects(page.shop.cancel({ ...order, version: 7 }), refusedAs('precondition_failed'))
  assert.equal((await page.shop.cancel(order)).status, 'cancelled')
})

test('with EMAIL_VERIFICATION=required the walk of the document leads to a session', async (t) => {
  const smtp = await startSmtpServer(t)
  const accountUrl = 'https://shop.example/account'
  const mailing = await startStore(t, { roles: ['api', 'email'], smtpUrl: smtp.url, isEmailVerificationRequired: true, accountUrl })
  const { shop, kept } = openPage(mailing)
  const email = 'ada@example.com'
  assert.deepEqual(await shop.register({ email, password: PASSWORD, name: 'Ada' }), { status: 'verification_required' })
  assert.equal(kept.size, 0)
  await assert.rejects(shop.login(email, PASSWORD), refusedAs('invalid_credentials'))
  const mail = await eventually(async () => smtp.mails[0], { what: 'the mail' })
  const link = /^https:\S+$/m.exec(mail.text ?? '')?.[0] ?? ''
  const token = new URL(link).hash.replace('#verify-email=', '')
  await assert.rejects(shop.verifyEmail(token, 'not the passphrase'), refusedAs('invalid_credentials'))
  assert.equal((await shop.verifyEmail(token, PASSWORD)).user.email, email)
  assert.equal((await shop.call('GET', '/me')).email, email)
  await assert.rejects(shop.verifyEmail(token, PASSWORD), refusedAs('invalid_one_time_token'))
})

test('the document names the headers that pages may send and read', () => {
  const source = readFileSync(new URL('../src/http/cors.ts', import.meta.url), 'utf8')
  for (const constant of ['REQUEST_HEADERS', 'EXPOSED']) {
    const [, list = ''] = new RegExp(`const ${constant} = '(.*)'`).exec(source) ?? []
    assert.ok(list !== '')
    for (const header of list.split(', ')) assert.ok(DOCUMENT.includes(`\`${header}\``), header)
  }
})

test('a visitor orders without an account, and its session is refreshed like any other', async () => {
  const page = openPage()
  const { user } = await page.shop.guest(`${randomUUID()}@example.com`)
  assert.equal(user.role, 'guest')
  const placed = await page.shop.order({ items: [{ product_id: products[0]?.id, quantity: 1 }] }, randomUUID())
  const reloaded = openPage()
  for (const [name, value] of page.kept) reloaded.kept.set(name, value)
  assert.deepEqual(
    (await reloaded.shop.call('GET', '/orders')).data.map(({ id }) => id),
    [placed.id],
  )
})
