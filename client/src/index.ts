import createFetchClient, { type Client } from 'openapi-fetch'
import { accountCalls } from './account.ts'
import { eachItem } from './pages.ts'
import { dataOf, ProblemError, readProblem, UnexpectedResponse } from './problem.ts'
import { createSend, isSameSession } from './send.ts'
import type { components, operations, paths } from './shop.ts'
import { memoryTokens, type TokenStore } from './tokens.ts'

export { formatMajorUnits, formatMoney } from './currency.ts'
export { eachItem, type Page } from './pages.ts'
export { isProblem, type Problem, type ProblemCode, ProblemError, type ProblemOf, UnexpectedResponse } from './problem.ts'
export { SessionChanged } from './send.ts'
export type { components, operations, paths } from './shop.ts'
export { memoryTokens, storedTokens, type TokenStore, type Tokens } from './tokens.ts'

/** The types of the API's bodies by their names in `openapi.json`, such as `Schemas['Product']`. */
export type Schemas = components['schemas']
export type Product = Schemas['Product']
export type ProductDetails = Schemas['ProductDetails']
export type Order = Schemas['Order']
export type OrderDetail = Schemas['OrderDetail']
export type NewOrder = Schemas['NewOrder']
export type User = Schemas['User']
export type Money = Schemas['Money']

export type ProductQuery = NonNullable<operations['listProducts']['parameters']['query']>
export type OrderQuery = NonNullable<operations['listOrders']['parameters']['query']>

export interface StorefrontOptions {
  /** The address of the API, such as `https://shop.example/api`. */
  baseUrl: string
  /** Keeps the session's tokens. By default they are in memory, and a reload of the page ends the session. */
  tokens?: TokenStore
  fetch?: (request: Request) => Promise<Response>
  /** The most times that a request is sent. The default is 4, and 1 turns retries off. */
  maxAttempts?: number
  /** The longest wait before one retry in milliseconds. The default is 30,000. */
  maxDelayMs?: number
}

/** The options of a call. `signal` aborts it, including its retries. */
export interface CallOptions {
  signal?: AbortSignal
}

/**
 * How a page shows a product: its language, its currency and its variants. Without `lang`, a cache may answer in the
 * language of another browser.
 */
export interface ShownIn {
  lang?: NonNullable<NonNullable<operations['getProduct']['parameters']['query']>['lang']>
  currency?: string
  /** Adds all variants of the product's group. */
  include?: 'variants'
}

export type Storefront = ReturnType<typeof createStorefront>

/**
 * Creates a client of one store. Each call returns the body of a success. It throws `ProblemError` for a refusal,
 * `UnexpectedResponse` for an answer that is not the store's, and the error of `fetch` if there is no answer.
 */
export function createStorefront({ baseUrl: address, tokens = memoryTokens(), ...options }: StorefrontOptions) {
  // The address in the form of `Request`, because a request is recognised by its address.
  const baseUrl = new Request(address).url.replace(/\/+$/, '')
  const { fetch = (request: Request) => globalThis.fetch(request), maxAttempts = 4, maxDelayMs = 30_000 } = options
  const send = createSend({ baseUrl, tokens, fetch, maxAttempts, maxDelayMs, random: Math.random })
  /**
   * Every operation for shops' pages by method and path, typed. `@storefront/client/operators` adds those of operators.
   * Throws like the other calls.
   */
  const api: Client<paths> = createFetchClient<paths>({ baseUrl, fetch: send, pathSerializer })
  api.use({
    onResponse: async ({ response }) => {
      if (response.ok) {
        // A page of a proxy or a hotel's network is not an answer of the store, whatever its status.
        if (response.status === 204 || /^application\/(x-nd)?json\b/.test(response.headers.get('content-type') ?? '')) return
        throw new UnexpectedResponse(response)
      }
      const problem = await readProblem(response)
      throw problem === null ? new UnexpectedResponse(response) : new ProblemError(problem, response)
    },
  })

  return {
    api,
    ...accountCalls(api),

    /**
     * Makes an account and logs it in. Returns null if the address must be confirmed first; `verifyEmail` then logs in.
     */
    async register(registration: Schemas['Registration'], call: CallOptions = {}): Promise<User | null> {
      const { data } = await api.POST('/auth/register', { ...call, body: registration })
      return data !== undefined && 'user' in data ? logIn(data) : null
    },

    async verifyEmail(verification: Schemas['EmailVerification'], call: CallOptions = {}): Promise<User> {
      return logIn(dataOf(await api.POST('/auth/verify-email', { ...call, body: verification })))
    },

    async login(credentials: Schemas['Credentials'], call: CallOptions = {}): Promise<User> {
      return logIn(dataOf(await api.POST('/auth/login', { ...call, body: credentials })))
    },

    /** Opens a session without an account, for ordering. Any address gets one. */
    async loginAsGuest(guest: Schemas['NewGuest'], call: CallOptions = {}): Promise<User> {
      return logIn(dataOf(await api.POST('/auth/guest', { ...call, body: guest })))
    },

    /** Completes a login that was refused with `second_factor_required`. Sends its `challenge` back with one proof. */
    async completeLogin(proof: Schemas['SecondFactor'], call: CallOptions = {}): Promise<User> {
      return logIn(dataOf(await api.POST('/auth/second-factor', { ...call, body: proof })))
    },

    /**
     * Signs in without a password. `answer` passes the options to `navigator.credentials.get` and returns its answer as
     * JSON.
     */
    async loginWithPasskey(
      answer: (options: Schemas['PasskeyRequest']['options']) => Promise<Schemas['PasskeySignIn']['passkey']>,
      call: CallOptions = {},
    ): Promise<User> {
      const { options } = dataOf(await api.POST('/auth/passkey/options', { ...call }))
      return logIn(dataOf(await api.POST('/auth/passkey', { ...call, body: { passkey: await answer(options) } })))
    },

    /** The providers with which customers can sign in; often empty. */
    async signInProviders(call: CallOptions = {}): Promise<Schemas['SignInProvider'][]> {
      return dataOf(await api.GET('/auth/oidc', { ...call })).data
    },

    /**
     * The address for the browser (`location.href`) to sign in with a provider. Keep `codeVerifier`, such as in
     * `sessionStorage`, for `exchangeSignIn`. The browser returns to `returnTo` with `#oidc-code=…` or `#oidc-error=…`.
     * With the purpose `link` it returns with `#oidc-link-code=…`, for `linkSignIn`.
     */
    async startSignIn(
      provider: string,
      returnTo: string,
      purpose: 'sign_in' | 'link' = 'sign_in',
    ): Promise<{ url: string; codeVerifier: string }> {
      const codeVerifier = toBase64Url(crypto.getRandomValues(new Uint8Array(32)))
      const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(codeVerifier))
      const query = new URLSearchParams({ return_to: returnTo, code_challenge: toBase64Url(new Uint8Array(hash)), purpose })
      return { url: `${baseUrl}/auth/oidc/${encodeURIComponent(provider)}/authorize?${query}`, codeVerifier }
    },

    async exchangeSignIn(code: string, codeVerifier: string, call: CallOptions = {}): Promise<User> {
      return logIn(dataOf(await api.POST('/auth/oidc/token', { ...call, body: { code, code_verifier: codeVerifier } })))
    },

    /** Ends the session, also at the store if it answers. */
    async logout(call: CallOptions = {}): Promise<void> {
      const session = await tokens.load()
      try {
        if (session !== null) await api.POST('/auth/logout', { ...call })
      } catch (error) {
        // The session has already ended.
        if (!(error instanceof ProblemError && error.status === 401)) throw error
      } finally {
        // A login meanwhile, such as in another tab, stays.
        if (isSameSession(session, await tokens.load())) await tokens.save(null)
      }
    },

    /** Whether there are tokens of a session, which the store may have ended meanwhile. */
    async isLoggedIn(): Promise<boolean> {
      return (await tokens.load()) !== null
    },

    async productPage(query: ProductQuery = {}, call: CallOptions = {}): Promise<Schemas['ProductPage']> {
      return dataOf(await api.GET('/products', { ...call, params: { query } }))
    },

    /** All matching products, loaded page by page while they are read. */
    products(query: Omit<ProductQuery, 'cursor'> = {}, call: CallOptions = {}): AsyncGenerator<Product, void, void> {
      return eachItem((cursor) => this.productPage({ ...query, ...(cursor === undefined ? {} : { cursor }) }, call))
    },

    async product(id: string, { lang, currency, include, ...call }: CallOptions & ShownIn = {}): Promise<ProductDetails> {
      return dataOf(await api.GET('/products/{id}', { ...call, params: { path: { id }, query: present({ lang, currency, include }) } }))
    },

    /** Finds a product by its current or a former slug; `slug` in the answer is the current one. */
    async productBySlug(slug: string, { lang, currency, include, ...call }: CallOptions & ShownIn = {}): Promise<ProductDetails> {
      const query = present({ lang, currency, include })
      return dataOf(await api.GET('/products/by-slug/{slug}', { ...call, params: { path: { slug }, query } }))
    },

    /** The tree of categories. Parents come before their children. */
    async categories(call: CallOptions = {}): Promise<Schemas['Categories']> {
      return dataOf(await api.GET('/categories', { ...call, params: {} }))
    },

    /** The number of products by category, brand and price. */
    async facets(
      query: NonNullable<operations['listFacets']['parameters']['query']> = {},
      call: CallOptions = {},
    ): Promise<Schemas['Facets']> {
      return dataOf(await api.GET('/products/facets', { ...call, params: { query } }))
    },

    /** The cost of an order, and whether there is enough stock. */
    async quote(items: NewOrder['items'], { currency, ...call }: CallOptions & { currency?: string } = {}): Promise<Schemas['Quote']> {
      return dataOf(await api.POST('/orders/quote', { ...call, body: { items, ...present({ currency }) } }))
    },

    /**
     * Places an order. Each retry sends the same idempotency key, so a lost answer causes no second order. Pass your
     * own key to repeat the call after a reload of the page.
     */
    async placeOrder(
      order: NewOrder,
      { idempotencyKey = crypto.randomUUID(), ...call }: CallOptions & { idempotencyKey?: string } = {},
    ): Promise<Order> {
      const header = { 'idempotency-key': idempotencyKey }
      return dataOf(await api.POST('/orders', { ...call, params: { header }, body: order }))
    },

    async orderPage(query: OrderQuery = {}, call: CallOptions = {}): Promise<Schemas['OrderPage']> {
      return dataOf(await api.GET('/orders', { ...call, params: { query } }))
    },

    /** The orders of the account, the newest first, loaded page by page while they are read. */
    orders(query: Omit<OrderQuery, 'cursor'> = {}, call: CallOptions = {}): AsyncGenerator<Order, void, void> {
      return eachItem((cursor) => this.orderPage({ ...query, ...(cursor === undefined ? {} : { cursor }) }, call))
    },

    async order(id: string, call: CallOptions = {}): Promise<OrderDetail> {
      return dataOf(await api.GET('/orders/{id}', { ...call, params: { path: { id } } }))
    },

    /**
     * A given `version`, the one that the page has shown, refuses the call (`precondition_failed`) when the order has
     * changed since.
     */
    async cancelOrder(id: string, { version, ...call }: CallOptions & { version?: number } = {}): Promise<Order> {
      const header = version === undefined ? {} : { 'if-match': `"${version}"` }
      return dataOf(await api.POST('/orders/{id}/cancel', { ...call, params: { path: { id }, header } }))
    },
  }

  async function logIn({ user, access_token, refresh_token }: Schemas['LoginResult']): Promise<User> {
    await tokens.save({ access_token, refresh_token })
    return user
  }
}

/** Drops the properties that are undefined. */
function present<Members extends Record<string, unknown>>(members: Members): { [Name in keyof Members]?: NonNullable<Members[Name]> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as never
}

function toBase64Url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
}

/**
 * Encodes a value as one segment of the path. `encodeURIComponent` keeps `..`, which leads to another path, and so does
 * `%2E%2E`.
 */
function pathSerializer(pathname: string, values: Record<string, unknown>): string {
  const segment = (text: string) => (/^\.{1,2}$/.test(text) ? text.replaceAll('.', '%252E') : encodeURIComponent(text))
  return Object.entries(values).reduce((path, [name, value]) => path.replace(`{${name}}`, () => segment(String(value))), pathname)
}
