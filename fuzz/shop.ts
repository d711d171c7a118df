import { randomUUID } from 'node:crypto'
import { ORDER_STATUSES, pathTo } from '../src/orders/order-status.ts'
import { eventually } from '../test/eventually.ts'
import type { Contract } from './contract.ts'
import type { FuzzedStore } from './fuzzed-store.ts'
import type { Account, Known } from './known.ts'
import type { FuzzRequest } from './request.ts'
import { send } from './send.ts'
import { PASSWORD } from './valid-request.ts'

const CUSTOMERS = 3
const PRODUCTS = 8
const CATEGORIES = 3
const ORDERS = 6
const ATTEMPTS = 10

/**
 * Keeps data for requests: accounts with a session, products with stock, categories, orders with several statuses, and
 * an enabled webhook endpoint.
 */
export function createShop(store: FuzzedStore, known: Known, { operations }: Contract) {
  let turn = 0

  async function call(name: string, account: Account | null, body: object | null, id = ''): Promise<unknown> {
    const operation = operations.find((candidate) => candidate.name === name)
    if (operation === undefined) throw new Error(`${name} is not in the document`)
    const request: FuzzRequest = {
      ...{
        operation,
        method: operation.method,
        account,
        isStranger: false,
        pathValues: { id },
        query: [],
        headers: [],
        authorization: null,
      },
      ...{ contentType: body === null ? null : 'application/json', bodyText: body === null ? null : JSON.stringify(body) },
      ...{ bodyBytes: null, isOdd: false },
    }
    const answer = await send(request, { port: store.port, from: `10.0.${Math.floor(++turn / 250) % 250}.${turn % 250}` })
    known.learn(request, answer)
    if (answer.status < 300) return answer.json()
    if (answer.status === 401 && account !== null) throw new AccountGone()
    throw new Error(`${name}: ${answer.status} ${answer.bytes.toString('utf8')}`)
  }

  async function addAccount(role: Account['role']): Promise<void> {
    const email = `${randomUUID()}@example.com`
    await call('POST /auth/register', null, { email, password: PASSWORD, name: 'Ada' })
    if (store.config.isEmailVerificationRequired) await proveAddress(email)
    if (role === 'customer') return
    await store.pool.query(`update users set role = 'admin' where email = $1`, [email])
    await call('POST /auth/login', null, { email, password: PASSWORD })
    const account = known.accounts.find((candidate) => candidate.email === email)
    if (account !== undefined) account.role = 'admin'
  }

  async function proveAddress(email: string): Promise<void> {
    await call('POST /auth/verify-email', null, { token: await readToken(() => known.tokensByAddress.get(email)), password: PASSWORD })
  }

  function readToken(find: () => string | undefined): Promise<string> {
    return eventually(async () => {
      known.readMails()
      return find()
    })
  }

  /** Requests a mailed token, which stays unused. */
  async function askForToken(): Promise<void> {
    const email = known.accountsOf('customer').at(-1)?.email
    if (known.oneTimeTokens.length > 0 || email === undefined) return
    await call('POST /auth/password-reset', null, { email })
    await readToken(() => known.oneTimeTokens.at(-1))
  }

  async function addProduct(admin: Account): Promise<void> {
    const price = { amount: 1 + (turn % 7) * 333, currency: 'EUR' }
    const body = { sku: `SHOP-${randomUUID()}`, name: 'A lamp', category: 'lamps', price, stock: turn % 5 === 0 ? null : 50 }
    await call('POST /admin/products', admin, body)
  }

  async function addOrder(customer: Account, admin: Account): Promise<void> {
    // This needs a new product, because known ones may have been sold, archived or priced in another currency.
    await addProduct(admin)
    const productId = known.products.at(-1)?.id
    const order = (await call('POST /orders', customer, { items: [{ product_id: productId, quantity: 1 }] })) as { id: string }
    // Every second order is pending, because customers can cancel only those.
    const status = turn++ % 2 === 0 ? 'pending' : ORDER_STATUSES[(turn / 2) % ORDER_STATUSES.length]
    const [, ...moves] = pathTo(status ?? 'pending')
    for (const to of moves) await call('POST /admin/orders/{id}/transitions', admin, { to }, order.id)
  }

  async function stockUp(): Promise<void> {
    known.readMails()
    for (let count = known.accountsOf('customer').length; count < CUSTOMERS; count++) await addAccount('customer')
    if (known.accountsOf('admin').length === 0) await addAccount('admin')
    const [admin] = known.accountsOf('admin')
    const customer = known.accountsOf('customer').at(-1)
    if (admin === undefined || customer === undefined) return
    for (let count = known.products.length; count < PRODUCTS; count++) await addProduct(admin)
    for (let count = known.categories.length; count < CATEGORIES; count++)
      await call('POST /admin/categories', admin, { name: `Category ${randomUUID()}` })
    if (!known.webhooks.some(({ isEnabled }) => isEnabled))
      await call('POST /admin/webhooks', admin, { url: `https://host.example/${randomUUID()}` })
    const owned = known.orders.filter(({ ownerId }) => known.accounts.some(({ id }) => id === ownerId))
    for (let count = owned.length; count < ORDERS; count++) await addOrder(customer, admin)
    const hasSession = known.sessions.some(({ ownerId }) => known.accounts.some(({ id }) => id === ownerId))
    if (!hasSession) await call('GET /auth/sessions', customer, null)
  }

  return {
    async stockUp({ needsToken = false } = {}): Promise<void> {
      for (let attempt = 1; ; attempt++) {
        try {
          await stockUp()
          return await (needsToken ? askForToken() : undefined)
        } catch (error) {
          if (!(error instanceof AccountGone) || attempt === ATTEMPTS) throw error
        }
      }
    },
  }
}

/** A previous request has ended the session, so the account is no longer known. */
class AccountGone extends Error {
  override readonly name = 'AccountGone'
}
