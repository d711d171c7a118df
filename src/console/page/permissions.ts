import { call, type Schemas } from './api.ts'

export type Scope = Schemas['User']['scopes'][number]

/** What the signed-in operator may do. A role changes only with a new session. */
export interface Permissions {
  userId: string
  role: Schemas['User']['role']
  scopes: ReadonlySet<Scope>
}

export async function readPermissions(): Promise<Permissions> {
  const { id, role, scopes } = await call<Schemas['User']>('GET', '/me')
  return { userId: id, role, scopes: new Set(scopes) }
}
