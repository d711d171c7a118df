/** A refusal of the store (RFC 9457). `code` is null when the answer came from a proxy in between. */
export class ShopError extends Error {
  constructor(status, problem, retryAfterSeconds) {
    super(problem?.detail ?? `status ${status}`)
    this.status = status
    this.code = problem?.code ?? null
    this.problem = problem
    this.retryAfterSeconds = retryAfterSeconds
  }
}

/** A list of values is sent as the parameter repeated, such as `attr`. */
function queryOf(query) {
  return new URLSearchParams(Object.entries(query).flatMap(([name, value]) => [value].flat().map((one) => [name, one])))
}

/** `storage` keeps the refresh token: `localStorage`, or `sessionStorage` for a session that ends with the tab. */
export function createShop(base, storage, send = (url, init) => fetch(url, init)) {
  let accessToken = null
  let refreshing = null

  async function request(method, path, { body, headers, token } = {}) {
    const answer = await send(base + path, {
      method,
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(token == null ? {} : { authorization: `Bearer ${token}` }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    })
    const isJson = /json/.test(answer.headers.get('content-type') ?? '')
    const content = isJson ? await answer.json() : null
    if (!answer.ok) throw new ShopError(answer.status, content, Number(answer.headers.get('retry-after')) || null)
    return content
  }

  function keepTokens({ access_token, refresh_token }) {
    accessToken = access_token
    storage.setItem('refresh_token', refresh_token)
  }

  function forgetTokens() {
    accessToken = null
    storage.removeItem('refresh_token')
  }

  // One refresh at a time, in this page and in all tabs: a refresh token works once.
  function refresh() {
    const work = async () => {
      const refresh_token = storage.getItem('refresh_token')
      if (refresh_token === null) throw new ShopError(401, { code: 'unauthenticated', detail: 'Log in first.' }, null)
      try {
        keepTokens(await request('POST', '/auth/refresh', { body: { refresh_token } }))
      } catch (error) {
        if (error.code === 'invalid_refresh_token') forgetTokens()
        throw error
      }
    }
    const locks = globalThis.navigator?.locks
    refreshing ??= (locks ? locks.request('storefront-refresh', work) : work()).finally(() => {
      refreshing = null
    })
    return refreshing
  }

  /** A call by the logged-in customer. */
  async function call(method, path, options) {
    if (accessToken === null) await refresh()
    try {
      return await request(method, path, { ...options, token: accessToken })
    } catch (error) {
      if (error.code !== 'invalid_token') throw error
    }
    await refresh()
    return request(method, path, { ...options, token: accessToken })
  }

  async function opened(path, body) {
    const answer = await request('POST', path, { body })
    if (answer.access_token !== undefined) keepTokens(answer)
    return answer
  }

  return {
    call,

    /** `query` as in the OpenAPI document: `q`, `category`, `sort`, `limit`, `cursor` … */
    products: (query = {}) => request('GET', `/products?${queryOf(query)}`),

    /** Every item of a list, page by page. */
    async *each(readPage) {
      for (let cursor = null; ; ) {
        const page = await readPage(cursor)
        yield* page.data
        if (!page.has_more) return
        cursor = page.next_cursor
      }
    },

    /** `{user, …}`; with EMAIL_VERIFICATION=required `{status: 'verification_required'}`. */
    register: (body) => opened('/auth/register', body),
    verifyEmail: (token, password) => opened('/auth/verify-email', { token, password }),
    login: (email, password) => opened('/auth/login', { email, password }),
    /** A session without an account. */
    guest: (email) => opened('/auth/guest', { email }),

    async logout() {
      try {
        await call('POST', '/auth/logout')
      } finally {
        forgetTokens()
      }
    },

    /** Places an order once, even if answers are lost. Keep `key` from the checkout until the order is placed. */
    async order(body, key) {
      for (let attempt = 1; ; attempt++) {
        try {
          return await call('POST', '/orders', { body, headers: { 'idempotency-key': `"${key}"` } })
        } catch (error) {
          if (attempt === 5 || !isWorthRetrying(error)) throw error
          await new Promise((resolve) => setTimeout(resolve, (error.retryAfterSeconds ?? 0.2 * 2 ** attempt) * 1000))
        }
      }
    },

    /** Cancels an order if it has not changed since the customer saw it. */
    cancel: ({ id, version }) => call('POST', `/orders/${id}/cancel`, { headers: { 'if-match': `"${version}"` } }),
  }
}

/** Network errors, and temporary refusals. Never a refusal that the same request would get again. */
function isWorthRetrying(error) {
  if (!(error instanceof ShopError)) return error instanceof TypeError
  return (
    ['unavailable', 'overloaded', 'internal', 'request_in_progress'].includes(error.code) || (error.code === null && error.status >= 500)
  )
}
