import { type CryptoKey, calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JWK } from 'jose'
import { type AuditContext, recordActivity } from '../../activity/record-activity.ts'
import type { Pool, Queryable, Transaction } from '../../db/pool.ts'
import { literal, sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import { OperatorError } from '../../errors.ts'
import { encrypt, tryDecrypt } from '../encryption.ts'
import { assertStoreSecret, type Purpose, reencrypt } from '../store-secret.ts'

export const ALGORITHM = 'EdDSA'
/** An access token's lifetime. A retired key still verifies for this time. */
export const ACCESS_TOKEN_SECONDS = 900
export const CLOCK_TOLERANCE_SECONDS = 5
/**
 * How far a token's issue time may be ahead of the clock, so it stays valid when a clock moves back by minutes. See
 * docs/decisions/auth-tokens.md#clocks-that-step.
 */
export const ISSUED_AHEAD_SECONDS = 300
/** The longest time that a token accepted now stays accepted. */
export const LONGEST_ACCEPTED_SECONDS = ISSUED_AHEAD_SECONDS + ACCESS_TOKEN_SECONDS + CLOCK_TOLERANCE_SECONDS
/** How long clients may cache the JWKS. */
export const JWKS_MAX_AGE_SECONDS = 300
// Running processes load key changes within a second. A hanging process signs with the old key for longer.
const RELOAD_SECONDS = 60
// A new key signs only when every caching client has it.
const PUBLISH_SECONDS = JWKS_MAX_AGE_SECONDS + RELOAD_SECONDS
const PURPOSE: Purpose = 'signing key'

export interface SigningKeys {
  /** Signs new tokens. */
  current: { id: string; privateKey: CryptoKey }
  /** Every key that still verifies, by its id. */
  verifying: ReadonlyMap<string, CryptoKey>
  /** The verifying keys as a JWK set (RFC 7517), the newest first. */
  jwks: { keys: JWK[] }
}

/** The secret is not the one that encrypted the keys. */
export class WrongSecret extends OperatorError {
  override readonly name = 'WrongSecret'
}

/** Loads the access token keys, and creates the first one. Throws WrongSecret. */
export async function loadSigningKeys(pool: Pool, secret: string): Promise<SigningKeys> {
  const existing = await selectKeys(pool)
  const rows = existing.some(canSign) ? existing : await insertFirstKey(pool, secret)
  const current = findCurrent(rows)
  if (current === undefined) throw new Error('there is no signing key')
  const publicKeys = await Promise.all(rows.map(async (row) => [row.id, await importKey(row.public_key)] as const))
  return {
    current: { id: current.id, privateKey: await decryptPrivateKey(current, secret) },
    verifying: new Map(publicKeys),
    jwks: { keys: rows.map((row) => toPublicJwk(row.public_key, row.id)) },
  }
}

/** The parts of a key whose changes a running process detects. */
export type KeyState = Pick<KeyRow, 'id' | 'is_published_only' | 'is_retired'> & { is_erased: boolean }

/** The key ids, the newest first, and the signing key's id. */
export function keyState(states: readonly KeyState[]): { ids: string[]; currentId: string | undefined } {
  return { ids: states.map(({ id }) => id), currentId: findCurrent(states)?.id }
}

/**
 * Adds a key, which is published at once. It signs from `signsFrom` on, when every cached JWKS contains it; a store's
 * first key signs at once. The previous key then retires, and verifies until its tokens have expired. Throws
 * WrongSecret.
 */
export async function rotateSigningKeys(
  pool: Pool,
  secret: string,
  auditContext: AuditContext | null = null,
): Promise<{ id: string; signsFrom: Date }> {
  const fresh = await generateKey(secret)
  return inTransaction(pool, async (tx) => {
    await lockKeys(tx)
    const current = findCurrent(await selectKeys(tx))
    // If running processes could not decrypt the key, every login would fail.
    if (current !== undefined) await decryptPrivateKey(current, secret)
    await assertStoreSecret(tx, secret)
    const signsFrom = await insertKey(tx, fresh, current === undefined ? 0 : PUBLISH_SECONDS)
    await tx.query('update signing_keys set retired_at = $2 where retired_at is null and id <> $1', [fresh.id, signsFrom])
    const states = { before: { key: current?.id ?? null }, after: { key: fresh.id, signs_from: signsFrom } }
    if (auditContext !== null) await recordActivity(tx, auditContext, { subjectType: 'store', subjectId: 'signing key', ...states })
    return { id: fresh.id, signsFrom }
  })
}

/** Erases the private halves of retired keys. Idempotent. */
export async function eraseRetiredPrivateKeys(db: Queryable): Promise<void> {
  await db.query('update signing_keys set sealed_private_key = null where retired_at <= now() and sealed_private_key is not null')
}

/** Ends every access token. Running processes create another key, and so does the next start. */
export async function deleteSigningKeys(db: Queryable): Promise<void> {
  await db.query('delete from signing_keys')
}

/** Encrypts the private keys with `to` instead of `from`. Returns the number of keys. Throws WrongSecret. */
export async function reencryptSigningKeys(tx: Transaction, from: string, to: string): Promise<number> {
  await lockKeys(tx)
  const { rows } = await tx.query<{ id: string; encrypted: Buffer }>(
    'select id, sealed_private_key as encrypted from signing_keys where sealed_private_key is not null',
  )
  for (const { id, encrypted } of rows) {
    const reencrypted = reencrypt(from, to, PURPOSE, encrypted)
    if (reencrypted === null) throw new WrongSecret(`the secret does not decrypt the signing key ${id}`)
    await tx.query(sql`update signing_keys set sealed_private_key = ${reencrypted} where id = ${id}`)
  }
  return rows.length
}

/** Keys without a database, for a server that only prints its OpenAPI document. */
export async function generateSigningKeys(): Promise<SigningKeys> {
  const { publicKey, privateKey } = await generateKeyPair(ALGORITHM, { extractable: true })
  const jwk = await exportJWK(publicKey)
  const id = await calculateJwkThumbprint(jwk)
  return { current: { id, privateKey }, verifying: new Map([[id, publicKey]]), jwks: { keys: [toPublicJwk(jwk, id)] } }
}

interface KeyRow {
  id: string
  public_key: JWK
  /** Is null when it was erased. */
  sealed_private_key: Buffer | null
  is_published_only: boolean
  is_retired: boolean
  is_erased: boolean
}

const COLUMNS = sql`id, signs_from > now() as is_published_only, coalesce(retired_at <= now(), false) as is_retired,
    sealed_private_key is null as is_erased`
const VERIFYING = sql`from signing_keys
    where retired_at is null or retired_at > now() - make_interval(secs => ${literal(LONGEST_ACCEPTED_SECONDS + RELOAD_SECONDS)})
    order by created_at desc, id`

/** Selects `keys`: a KeyState of each verifying key. */
export const KEY_STATES = sql`select array(select row_to_json(state) from (select ${COLUMNS} ${VERIFYING}) as state) as keys`

/** Whether the key signs now or later. */
function canSign({ is_erased, is_retired }: KeyState): boolean {
  return !is_erased && !is_retired
}

/** The newest key that already signs; if there is none, the key that was published first. `rows` are newest first. */
function findCurrent<Key extends KeyState>(rows: readonly Key[]): Key | undefined {
  const signing = rows.filter(canSign)
  return signing.find((row) => !row.is_published_only) ?? signing.at(-1)
}

function toPublicJwk(jwk: JWK, id: string): JWK {
  return { ...jwk, kid: id, alg: ALGORITHM, use: 'sig' }
}

async function selectKeys(db: Queryable): Promise<KeyRow[]> {
  const { rows } = await db.query<KeyRow>(sql`select public_key, sealed_private_key, ${COLUMNS} ${VERIFYING}`)
  return rows
}

async function generateKey(secret: string) {
  const { current, jwks } = await generateSigningKeys()
  const { kid: _, alg: __, use: ___, ...publicKey } = jwks.keys[0] ?? {}
  return { id: current.id, publicKey, encryptedPrivateKey: encrypt(secret, PURPOSE, JSON.stringify(await exportJWK(current.privateKey))) }
}

/** Returns the time from which it signs. */
async function insertKey(db: Queryable, key: Awaited<ReturnType<typeof generateKey>>, publishSeconds: number): Promise<Date> {
  const { rows } = await db.query<{ signs_from: Date }>(
    `insert into signing_keys (id, public_key, sealed_private_key, signs_from)
    values ($1, $2, $3, now() + make_interval(secs => $4))
    returning signs_from`,
    [key.id, key.publicKey, key.encryptedPrivateKey, publishSeconds],
  )
  if (rows[0] === undefined) throw new Error('the signing key was not stored')
  return rows[0].signs_from
}

async function insertFirstKey(pool: Pool, secret: string): Promise<KeyRow[]> {
  const fresh = await generateKey(secret)
  return inTransaction(pool, async (tx) => {
    await lockKeys(tx)
    const existing = await selectKeys(tx)
    if (existing.some(canSign)) return existing
    await assertStoreSecret(tx, secret)
    await insertKey(tx, fresh, 0)
    return selectKeys(tx)
  })
}

// Processes that start or rotate at the same time must agree on one newest key.
async function lockKeys(db: Queryable): Promise<void> {
  await db.query('lock table signing_keys in exclusive mode')
}

async function importKey(jwk: JWK): Promise<CryptoKey> {
  return (await importJWK(jwk, ALGORITHM)) as CryptoKey
}

async function decryptPrivateKey(row: KeyRow, secret: string): Promise<CryptoKey> {
  const jwk = tryDecrypt(secret, PURPOSE, row.sealed_private_key ?? Buffer.alloc(0))
  if (jwk === null)
    throw new WrongSecret('STOREFRONT_SECRET is not the secret that the signing keys in this database were encrypted with; set that one')
  return importKey(JSON.parse(jwk))
}
