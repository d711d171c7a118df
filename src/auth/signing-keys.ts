import { type CryptoKey, calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JWK } from 'jose'
import type { Pool, Queryable } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { seal, unseal } from './sealed.ts'

export const ALGORITHM = 'EdDSA'
/** How long an access token lives, and so how long a key that no longer signs must still verify. */
export const ACCESS_TOKEN_SECONDS = 900
export const CLOCK_TOLERANCE_SECONDS = 5
// Running processes take up a new key within seconds; until then they sign with the old one.
const TAKE_UP_SECONDS = 60
const PURPOSE = 'signing key'

export interface SigningKeys {
  /** Signs new tokens. */
  current: { id: string; privateKey: CryptoKey }
  /** Every key that still verifies, by its id. */
  verifying: ReadonlyMap<string, CryptoKey>
  /** The same as a JWK set (RFC 7517), newest first. */
  jwks: { keys: JWK[] }
}

/** The secret is not the one that the keys were sealed with. Its message is one line for a terminal. */
class WrongSecret extends Error {
  override readonly name = 'WrongSecret'
}

/** Loads the keys of access tokens, making the first one if there is none. Throws WrongSecret. */
export async function loadSigningKeys(pool: Pool, secret: string): Promise<SigningKeys> {
  const existing = await selectKeys(pool)
  const rows = existing.some(isCurrent) ? existing : await insertFirstKey(pool, secret)
  const newest = rows.find(isCurrent)
  if (newest === undefined) throw new Error('there is no signing key')
  const publicKeys = await Promise.all(rows.map(async (row) => [row.id, await importKey(row.public_key)] as const))
  return {
    current: { id: newest.id, privateKey: await openPrivateKey(newest, secret) },
    verifying: new Map(publicKeys),
    jwks: { keys: rows.map((row) => toPublicJwk(row.public_key, row.id)) },
  }
}

/** Ids of the keys that sign or verify at this moment, newest first: whether anything has changed. */
export async function listSigningKeyIds(db: Queryable): Promise<string[]> {
  const rows = await selectKeys(db)
  return rows.map((row) => row.id)
}

/** Adds a key that signs from now on; the old one verifies until its tokens have expired. Returns its id. Throws WrongSecret. */
export async function rotateSigningKeys(pool: Pool, secret: string): Promise<string> {
  const fresh = await generateKey(secret)
  return inTransaction(pool, async (tx) => {
    await lockKeys(tx)
    const current = (await selectKeys(tx)).find(isCurrent)
    // A key that the running processes cannot open would end every login.
    if (current !== undefined) await openPrivateKey(current, secret)
    await tx.query('update signing_keys set retired_at = now(), sealed_private_key = null where retired_at is null')
    await insertKey(tx, fresh)
    return fresh.id
  })
}

/** Keys that are in no database, for a server that only shows its OpenAPI document. */
export async function generateSigningKeys(): Promise<SigningKeys> {
  const { publicKey, privateKey } = await generateKeyPair(ALGORITHM, { extractable: true })
  const jwk = await exportJWK(publicKey)
  const id = await calculateJwkThumbprint(jwk)
  return { current: { id, privateKey }, verifying: new Map([[id, publicKey]]), jwks: { keys: [toPublicJwk(jwk, id)] } }
}

interface KeyRow {
  id: string
  public_key: JWK
  /** Null when it was retired. */
  sealed_private_key: Buffer | null
}

function isCurrent(row: KeyRow): boolean {
  return row.sealed_private_key !== null
}

function toPublicJwk(jwk: JWK, id: string): JWK {
  return { ...jwk, kid: id, alg: ALGORITHM, use: 'sig' }
}

async function selectKeys(db: Queryable): Promise<KeyRow[]> {
  const { rows } = await db.query<KeyRow>(
    `select id, public_key, sealed_private_key
    from signing_keys
    where retired_at is null or retired_at > now() - make_interval(secs => $1)
    order by created_at desc, id`,
    [ACCESS_TOKEN_SECONDS + CLOCK_TOLERANCE_SECONDS + TAKE_UP_SECONDS],
  )
  return rows
}

async function generateKey(secret: string) {
  const { current, jwks } = await generateSigningKeys()
  const { kid: _, alg: __, use: ___, ...publicKey } = jwks.keys[0] ?? {}
  return { id: current.id, publicKey, sealed: seal(secret, PURPOSE, JSON.stringify(await exportJWK(current.privateKey))) }
}

async function insertKey(db: Queryable, key: Awaited<ReturnType<typeof generateKey>>): Promise<void> {
  await db.query('insert into signing_keys (id, public_key, sealed_private_key) values ($1, $2, $3)', [key.id, key.publicKey, key.sealed])
}

async function insertFirstKey(pool: Pool, secret: string): Promise<KeyRow[]> {
  const fresh = await generateKey(secret)
  return inTransaction(pool, async (tx) => {
    await lockKeys(tx)
    const existing = await selectKeys(tx)
    if (existing.some(isCurrent)) return existing
    await insertKey(tx, fresh)
    return selectKeys(tx)
  })
}

// Two processes that start or rotate together must agree on one newest key.
async function lockKeys(db: Queryable): Promise<void> {
  await db.query('lock table signing_keys in exclusive mode')
}

async function importKey(jwk: JWK): Promise<CryptoKey> {
  return (await importJWK(jwk, ALGORITHM)) as CryptoKey
}

async function openPrivateKey(row: KeyRow, secret: string): Promise<CryptoKey> {
  let jwk: JWK
  try {
    jwk = JSON.parse(unseal(secret, PURPOSE, row.sealed_private_key ?? Buffer.alloc(0)))
  } catch (error) {
    throw new WrongSecret('STOREFRONT_SECRET does not open the signing keys in this database', { cause: error })
  }
  return importKey(jwk)
}
