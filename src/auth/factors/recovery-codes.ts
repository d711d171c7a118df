import { randomBytes } from 'node:crypto'
import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { hashToken } from '../tokens/opaque-token.ts'
import { toBase32 } from './totp.ts'

const COUNT = 10
// 80 bits are unguessable, so a plain hash is enough.
const BYTES = 10

/** Replaces the account's codes. They are shown once; only hashes are stored. */
export async function replaceRecoveryCodes(tx: Transaction, userId: string): Promise<string[]> {
  const codes = Array.from({ length: COUNT }, () => toBase32(randomBytes(BYTES)).replace(/(.{4})(?=.)/g, '$1-'))
  await deleteRecoveryCodes(tx, userId)
  await tx.query(sql`insert into recovery_codes (user_id, code_hash)
    select ${userId}, code_hash from unnest(${codes.map(hashCode)}::bytea[]) as code (code_hash)`)
  return codes
}

export async function deleteRecoveryCodes(tx: Transaction, userId: string): Promise<void> {
  await tx.query(sql`delete from recovery_codes where user_id = ${userId}`)
}

/** Uses up a code, with any spacing. Returns whether it was an unused code of the account. */
export async function useRecoveryCode(tx: Transaction, userId: string, code: string, now: Date): Promise<boolean> {
  const { rowCount } = await tx.query(sql`update recovery_codes set used_at = ${now}
    where user_id = ${userId} and code_hash = ${hashCode(code)} and used_at is null`)
  return rowCount === 1
}

function hashCode(code: string): Buffer {
  return hashToken(code.replaceAll(/[\s-]/g, '').toUpperCase())
}
