import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Answer } from './connection.ts'
import { type FuzzRequest, parsedBody } from './request.ts'

export interface Account {
  id: string
  email: string
  role: 'customer' | 'admin'
  password: string
  token: string
}

/** A resource whose id requests can use, with its tags for `If-Match`. */
export interface Resource {
  id: string
  etags: string[]
  /** The entity tags of its stock, which are separate. */
  stockEtags: string[]
  /** The customer who owns it, if any. */
  ownerId: string | null
  /** Set for products. */
  slug?: string
  /** Set for webhook endpoints, because nothing can be queued for a disabled one. */
  isEnabled?: boolean
}

/** A page that has a next one. */
interface SeenPage {
  operation: string
  pathValues: FuzzRequest['pathValues']
  query: FuzzRequest['query']
  cursor: string
  accountId: string | null
}

const KEPT = 60
const KEPT_ETAGS = 4

/** Ids, tokens and cursors from earlier answers, with which requests get past `not_found` and `invalid_token`. */
export class Known {
  readonly accounts: Account[] = []
  readonly products: Resource[] = []
  readonly categories: Resource[] = []
  readonly orders: Resource[] = []
  readonly sessions: Resource[] = []
  readonly webhooks: Resource[] = []
  readonly pages: SeenPage[] = []
  readonly refreshTokens: string[] = []
  readonly oneTimeTokens: string[] = []
  /** The token of the newest mail to each address. */
  readonly tokensByAddress = new Map<string, string>()
  readonly #readMails = new Set<string>()
  readonly #mailFolder: string

  constructor(mailFolder: string) {
    this.#mailFolder = mailFolder
  }

  accountsOf(role: Account['role']): Account[] {
    return this.accounts.filter((account) => account.role === role)
  }

  learn(request: FuzzRequest, answer: Answer): void {
    this.#learnOfAccounts(request, answer)
    if ([204, 404].includes(answer.status)) {
      if (request.operation.name === 'DELETE /auth/sessions/{id}') forget(this.sessions, request.pathValues.id)
      if (request.operation.name === 'DELETE /admin/categories/{id}') forget(this.categories, request.pathValues.id)
      if (request.operation.name === 'DELETE /admin/webhooks/{id}') forget(this.webhooks, request.pathValues.id)
    }
    if (answer.status >= 300) return
    const json = answer.json()
    const ownerId = request.operation.isForOperators ? null : (request.account?.id ?? null)
    this.#collect(json, ownerId)
    const { id } = request.pathValues
    const etag = answer.headers.get('etag')
    const withTag = [...this.products, ...this.categories, ...this.orders]
    const resource = withTag.find((known) => known.id === (id ?? (json as { id?: string } | null)?.id))
    const isOfStock = request.operation.path.includes('/stock')
    if (etag !== undefined && resource !== undefined) remember(isOfStock ? resource.stockEtags : resource.etags, etag, KEPT_ETAGS)
    const { next_cursor: cursor } = (json ?? {}) as { next_cursor?: string | null }
    if (typeof cursor === 'string') {
      const query = request.query.filter(({ name }) => name !== 'cursor')
      remember(this.pages, {
        operation: request.operation.name,
        pathValues: request.pathValues,
        query,
        cursor,
        accountId: request.account?.id ?? null,
      })
    }
  }

  /** Reads the tokens in mails that have arrived since the last call. */
  readMails(): void {
    let names: string[]
    try {
      names = readdirSync(this.#mailFolder)
    } catch {
      return
    }
    // Mails about orders have no tokens. Their names are their events' ids.
    const isOfAccount = (name: string) => name.endsWith('.eml') && !/^[0-9a-f-]{36}\.\d+\.eml$/.test(name)
    for (const name of names.filter((candidate) => isOfAccount(candidate) && !this.#readMails.has(candidate))) {
      this.#readMails.add(name)
      // A token has 256 bits: 43 characters of base64url on a separate line.
      const mail = readFileSync(join(this.#mailFolder, name), 'utf8').replace(/=\r?\n/g, '')
      const [, token] = /^([\w-]{43})\r?$/m.exec(mail) ?? []
      if (token === undefined) continue
      remember(this.oneTimeTokens, token)
      const [, address] = /^To: .*?([^\s<>]+@[^\s<>]+)>?\r?$/m.exec(mail) ?? []
      if (address !== undefined) this.tokensByAddress.set(address, token)
    }
  }

  #learnOfAccounts(request: FuzzRequest, { status, json }: Answer): void {
    const { operation, account } = request
    const hasOwnToken = account !== null && request.authorization === null
    const isGone = status === 204 && ['DELETE /me', 'POST /auth/logout'].includes(operation.name)
    if (hasOwnToken && (status === 401 || isGone)) {
      const index = this.accounts.indexOf(account)
      const answer = json() as { code?: string } | null
      if (index >= 0 && (isGone || answer?.code === 'invalid_token')) this.accounts.splice(index, 1)
    }
    const body = parsedBody(request) as { new_password?: string; password?: string } | undefined
    if (status === 204 && operation.name === 'POST /auth/password' && account !== null) account.password = body?.new_password ?? ''
    const { token } = (body ?? {}) as { token?: string }
    if (token !== undefined && [200, 204, 422].includes(status)) {
      const index = this.oneTimeTokens.indexOf(token)
      if (index >= 0 && (json() as { code?: string } | null)?.code !== 'invalid_body') this.oneTimeTokens.splice(index, 1)
    }
    if (status >= 300) return
    const answer = json() as {
      user?: { id: string; email: string; role: Account['role'] }
      access_token?: string
      refresh_token?: string
    } | null
    if (answer?.refresh_token !== undefined) remember(this.refreshTokens, answer.refresh_token)
    if (answer?.user === undefined || answer.access_token === undefined || body?.password === undefined) return
    const { id, email, role } = answer.user
    const known = this.accounts.find((other) => other.id === id)
    if (known === undefined) remember(this.accounts, { id, email, role, password: body.password, token: answer.access_token })
    else known.token = answer.access_token
  }

  #collect(value: unknown, ownerId: string | null): void {
    if (typeof value !== 'object' || value === null) return
    if (Array.isArray(value)) {
      for (const item of value) this.#collect(item, ownerId)
      return
    }
    const { id, version, data, sku, slug, parent_id, status_history, current, event_types, state } = value as Record<string, unknown>
    if (typeof id === 'string') {
      if (parent_id !== undefined) see(this.categories, id, null)
      else if (typeof slug === 'string') see(this.products, id, null).slug = slug
      else if (sku !== undefined) see(this.products, id, null)
      else if (event_types !== undefined) see(this.webhooks, id, null).isEnabled = state !== 'disabled'
      else if (current !== undefined) see(this.sessions, id, ownerId)
      else if (status_history !== undefined) remember(see(this.orders, id, ownerId).etags, `"${version}"`, KEPT_ETAGS)
    }
    if (data !== undefined) this.#collect(data, ownerId)
  }
}

function see(known: Resource[], id: string, ownerId: string | null): Resource {
  const found = known.find((resource) => resource.id === id)
  if (found !== undefined) {
    found.ownerId ??= ownerId
    return found
  }
  return remember(known, { id, etags: [], stockEtags: [], ownerId })
}

function forget(known: Resource[], id: string | undefined): void {
  const index = known.findIndex((resource) => resource.id === id)
  if (index >= 0) known.splice(index, 1)
}

/** Adds a value and keeps the newest ones. */
function remember<T>(known: T[], value: T, kept = KEPT): T {
  if (!known.includes(value)) known.push(value)
  if (known.length > kept) known.shift()
  return value
}
