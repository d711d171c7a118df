import { createHmac } from 'node:crypto'
import type { Queryable } from '../pool.ts'
import { identifier, literal, sql } from '../sql.ts'

export const OWNER = 'storefront'
const API = 'storefront_api'
const STREAM = 'storefront_stream'

export interface Credentials {
  role: string
  password: string
}

/** Passwords are derived from the owner's, which alone is stored. */
export function embeddedRoles(ownerPassword: string): { api: Credentials; stream: Credentials; owner: Credentials } {
  const derive = (role: string) => createHmac('sha256', ownerPassword).update(`storefront role ${role}`).digest('base64url')
  return {
    api: { role: API, password: derive(API) },
    stream: { role: STREAM, password: derive(STREAM) },
    owner: { role: OWNER, password: ownerPassword },
  }
}

/** Creates missing roles, such as after a crash. `owner` is the superuser. One process at a time may call it. */
export async function createRoles(owner: Queryable, ownerPassword: string): Promise<void> {
  const { api, stream } = embeddedRoles(ownerPassword)
  const { rows } = await owner.query<{ role: string }>('select rolname as role from pg_roles where rolname in ($1, $2)', [API, STREAM])
  const isMissing = ({ role }: Credentials) => !rows.some((row) => row.role === role)
  if (isMissing(api)) await owner.query(sql`create role ${identifier(API)} login password ${literal(api.password)}`)
  if (isMissing(stream)) await owner.query(sql`create role ${identifier(STREAM)} login replication password ${literal(stream.password)}`)
}
