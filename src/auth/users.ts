import { translateConstraint } from '../db/constraints.ts'
import type { Queryable } from '../db/pool.ts'
import { notFound } from '../errors.ts'

export interface User {
  id: string
  email: string
  name: string | null
  role: 'customer' | 'admin'
  created_at: Date
}

const COLUMNS = 'id, email, name, role, created_at'

/** Throws `email_taken`. `email` is canonical. */
export async function insertUser(db: Queryable, user: User, passwordHash: string): Promise<void> {
  try {
    await db.query('insert into users (id, email, name, role, password_hash, created_at) values ($1, $2, $3, $4, $5, $6)', [
      user.id,
      user.email,
      user.name,
      user.role,
      passwordHash,
      user.created_at,
    ])
  } catch (error) {
    throw translateConstraint(error)
  }
}

export async function findUserByEmail(db: Queryable, email: string): Promise<(User & { password_hash: string }) | null> {
  const { rows } = await db.query<User & { password_hash: string }>(`select ${COLUMNS}, password_hash from users where email = $1`, [email])
  return rows[0] ?? null
}

export async function getUser(db: Queryable, id: string): Promise<User> {
  const { rows } = await db.query<User>(`select ${COLUMNS} from users where id = $1`, [id])
  if (rows[0] === undefined) throw notFound('account')
  return rows[0]
}
