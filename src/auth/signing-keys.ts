import { type CryptoKey, calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JWK } from 'jose'
import type { Pool } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { seal, unseal } from './sealed.ts'

export const ALGORITHM = 'EdDSA'
const PURPOSE = 'signing key'

export interface SigningKeys {
  current: { id: string; privateKey: CryptoKey }
  /** All public keys, newest first, as a JWK set (RFC 7517). */
  jwks: { keys: JWK[] }
}

/** Loads the keys that sign access tokens, making the first one if there is none. Throws when `secret` is not theirs. */
export async function loadSigningKeys(pool: Pool, secret: string): Promise<SigningKeys> {
  const rows = await selectKeys(pool)
  const [newest] = rows.length > 0 ? rows : await insertFirstKey(pool, secret)
  if (newest === undefined) throw new Error('there is no signing key')
  const keys = rows.length > 0 ? rows : [newest]
  return {
    current: { id: newest.id, privateKey: await openPrivateKey(newest, secret) },
    jwks: { keys: keys.map((row) => ({ ...row.public_key, kid: row.id, alg: ALGORITHM, use: 'sig' })) },
  }
}

interface KeyRow {
  id: string
  public_key: JWK
  sealed_private_key: Buffer
}

async function selectKeys(db: Pick<Pool, 'query'>): Promise<KeyRow[]> {
  const { rows } = await db.query<KeyRow>('select id, public_key, sealed_private_key from signing_keys order by created_at desc, id')
  return rows
}

/** A key pair that signs access tokens. */
export async function generateSigningKeys(): Promise<SigningKeys> {
  const { publicKey, privateKey } = await generateKeyPair(ALGORITHM, { extractable: true })
  const publicJwk = await exportJWK(publicKey)
  const id = await calculateJwkThumbprint(publicJwk)
  return { current: { id, privateKey }, jwks: { keys: [publicJwk] } }
}

async function insertFirstKey(pool: Pool, secret: string): Promise<KeyRow[]> {
  const { current, jwks } = await generateSigningKeys()
  const sealed = seal(secret, PURPOSE, JSON.stringify(await exportJWK(current.privateKey)))
  return inTransaction(pool, async (tx) => {
    // Two processes that start together must agree on one first key.
    await tx.query('lock table signing_keys in exclusive mode')
    const existing = await selectKeys(tx)
    if (existing.length > 0) return existing
    await tx.query('insert into signing_keys (id, public_key, sealed_private_key) values ($1, $2, $3)', [current.id, jwks.keys[0], sealed])
    return selectKeys(tx)
  })
}

async function openPrivateKey(row: KeyRow, secret: string): Promise<CryptoKey> {
  let jwk: JWK
  try {
    jwk = JSON.parse(unseal(secret, PURPOSE, row.sealed_private_key))
  } catch (error) {
    throw new Error('STOREFRONT_SECRET does not open the signing keys in this database', { cause: error })
  }
  return (await importJWK(jwk, ALGORITHM)) as CryptoKey
}
