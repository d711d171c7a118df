import type { OperatorRole } from '../src/http/scopes.ts'
import { type Account, requestsOf, type TestStore } from './store.ts'

/** An operator's account, logged in. */
export async function registerOperator(
  store: Pick<TestStore, 'call' | 'pool' | 'register'>,
  role: OperatorRole = 'admin',
): Promise<Account> {
  const account = await store.register()
  await store.pool.query('update users set role = $2 where id = $1', [account.id, role])
  const { json } = await store.call('POST', '/auth/login', { body: { email: account.email, password: account.password } })
  return { ...account, ...requestsOf(store.call, json.access_token), token: json.access_token, refreshToken: json.refresh_token }
}
