import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { Agent, request } from 'node:http'
import pino from 'pino'
import { AccessTokens } from '../src/auth/tokens/access-token.ts'
import { KeyRing } from '../src/auth/tokens/key-ring.ts'
import { loadSigningKeys } from '../src/auth/tokens/signing-keys.ts'
import type { Pool } from '../src/db/pool.ts'
import type { AccountRole } from '../src/http/scopes.ts'
import { makeCopies } from './fresh-copies.ts'
import { type Requests, requestsOf, TEST_SECRET, type TestStore } from './store.ts'

export interface Buyer extends Requests {
  id: string
  token: string
}

const HOUR_MS = 3_600_000

/**
 * Accounts with a session each, written straight into the database: a thousand passwords would take a minute to hash.
 */
export async function addBuyers(store: TestStore, count: number, role: AccountRole = 'customer'): Promise<Buyer[]> {
  const keys = new KeyRing(await loadSigningKeys(store.pool, TEST_SECRET), {
    copies: makeCopies({ after: () => {} }, store).copies,
    pool: store.pool,
    secret: TEST_SECRET,
    logger: pino({ level: 'silent' }),
  })
  const tokens = new AccessTokens(keys, store.config.baseUrl)
  const expiresAt = new Date(Date.now() + HOUR_MS)
  const accounts = Array.from({ length: count }, () => ({ userId: randomUUID(), sessionId: randomUUID() }))
  await insertAccounts(store.pool, accounts, role, expiresAt)
  return Promise.all(
    accounts.map(async ({ userId, sessionId }) => {
      const { token } = await tokens.issue({ kind: 'account', userId, sessionId, role }, expiresAt, new Date())
      return { id: userId, token, ...requestsOf(store.call, token) }
    }),
  )
}

/** One account, as `addBuyers`. */
export async function addBuyer(store: TestStore, role?: AccountRole): Promise<Buyer> {
  const [buyer] = await addBuyers(store, 1, role)
  assert.ok(buyer !== undefined)
  return buyer
}

async function insertAccounts(pool: Pool, accounts: { userId: string; sessionId: string }[], role: string, expiresAt: Date): Promise<void> {
  const userIds = accounts.map((account) => account.userId)
  await pool.query(
    `insert into users (id, email, role, password_hash)
    select id, id || '@example.com', $2, $3 from unnest($1::uuid[]) as id`,
    // Guests have no password.
    [userIds, role, role === 'guest' ? null : 'none'],
  )
  await pool.query(
    `insert into sessions (id, user_id, expires_at, authenticated_at, authenticated_by)
    select id, user_id, $3, now(), '{password}' from unnest($1::uuid[], $2::uuid[]) as session (id, user_id)`,
    [accounts.map((account) => account.sessionId), userIds, expiresAt],
  )
}

export interface NetworkAnswer {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
}

/** Sends requests to a listening store over sockets, one at a time for each caller. */
export function networkOf({ port }: TestStore) {
  const agent = new Agent({ keepAlive: true })
  const post = (path: string, token: string, body: unknown, headers: Record<string, string> = {}) =>
    new Promise<NetworkAnswer>((resolve, reject) => {
      const sent = request(
        {
          port,
          host: '127.0.0.1',
          agent,
          path,
          method: 'POST',
          headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
        },
        (answer) => {
          const chunks: Buffer[] = []
          answer.on('data', (chunk) => chunks.push(chunk))
          answer.on('error', reject)
          answer.on('end', () =>
            resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text: Buffer.concat(chunks).toString() }),
          )
        },
      )
      sent.on('error', reject)
      sent.end(JSON.stringify(body))
    })
  return { post, close: () => agent.destroy() }
}
