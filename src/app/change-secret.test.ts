import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { makeDataFolder } from '../../test/data-folders.ts'
import { createTestDatabase, findWaiting, type TestDatabase } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { insertTotp } from '../auth/factors/totp-authenticators.ts'
import { createEncryption } from '../auth/store-secret.ts'
import { loadSigningKeys, rotateSigningKeys } from '../auth/tokens/signing-keys.ts'
import { lockDataFolder, readOrCreateSecret, writeSecret } from '../db/embedded/data-folder.ts'
import type { Transaction } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { queueAccountMail } from '../mail/account-mail.ts'
import { addEndpoint, rotateSecret } from '../webhooks/webhook-endpoints.ts'
import { changeSecretTo, openSecret, replaceKeptSecret } from './secrets.ts'

const OLD = 'the secret before, long enough to be one'
const NEW = 'the secret after, long enough to be one too'
const OTHER = 'the secret of somebody else, who is long enough'
const MAIL = { kind: 'password_changed', to: 'ada@example.com', expiresAt: new Date(Date.now() + 3_600_000) } as const
const APPS = ['FIRST', 'SECOND']

/**
 * A database with data that this secret encrypts: two signing keys, two endpoints (one with a previous secret), two
 * apps and two mails.
 */
async function encryptThings(t: TestContext, secret: string) {
  const db = await createTestDatabase(t)
  await loadSigningKeys(db.pool, secret)
  await rotateSigningKeys(db.pool, secret)
  const webhooks = createEncryption(secret, 'webhook secret')
  const endpoints = []
  for (const path of ['a', 'b']) {
    const endpoint = { url: `https://example.com/${path}`, eventTypes: null, isPrivateAllowed: false }
    endpoints.push(await addEndpoint(db.pool, webhooks, endpoint))
  }
  const rotated = await rotateSecret(db.pool, webhooks, endpoints[1]?.id ?? '', new Date())
  const queueMail = (tx: Transaction, by = secret) => queueAccountMail(tx, createEncryption(by, 'account mail'), MAIL)
  for (const _ of [1, 2]) await inTransaction(db.pool, (tx) => queueMail(tx))
  for (const name of APPS) {
    const id = randomUUID()
    await db.pool.query('insert into users (id, email, password_hash) values ($1, $2, $3)', [id, `${id}@example.com`, 'none'])
    await inTransaction(db.pool, async (tx) =>
      insertTotp(tx, id, await createEncryption(secret, 'totp secret').encrypt(tx, name), new Date()),
    )
  }
  const secrets = [endpoints[0]?.secret, endpoints[1]?.secret, rotated].toSorted()
  return { db, queueMail, secrets, options: { pool: db.pool, url: db.url } }
}

/** All data in the database that is encrypted under the store's secret. */
async function readEncrypted({ pool }: TestDatabase) {
  const { rows: keys } = await pool.query<{ text: Buffer }>(
    'select sealed_private_key as text from signing_keys where sealed_private_key is not null',
  )
  const { rows: webhooks } = await pool.query<{ text: string }>(
    `select unnest(array[sealed_secret, previous_sealed_secret]) as text from webhook_endpoints`,
  )
  const { rows: totp } = await pool.query<{ text: string }>('select encrypted_secret as text from totp_authenticators')
  const { rows: mails } = await pool.query<{ text: string }>('select encrypted as text from account_mails')
  return {
    keys: keys.map(({ text }) => text.toString('base64')),
    webhooks: webhooks.map(({ text }) => text).filter((text) => text !== null),
    totp: totp.map(({ text }) => text),
    mails: mails.map(({ text }) => text),
  }
}

/** The data that this secret decrypts, as text. */
async function decryptAll(db: TestDatabase, secret: string) {
  const { keys, webhooks, totp, mails } = await readEncrypted(db)
  const decrypt = (texts: string[], purpose: Parameters<typeof createEncryption>[1]) =>
    texts.map(createEncryption(secret, purpose).decrypt).filter((text) => text !== null)
  return {
    keys: decrypt(keys, 'signing key'),
    webhooks: decrypt(webhooks, 'webhook secret').toSorted(),
    totp: decrypt(totp, 'totp secret').toSorted(),
    mails: decrypt(mails, 'account mail'),
  }
}

test('everything encrypted with the old secret is encrypted with the new one, and nothing else changes', async (t) => {
  const { db, secrets, options } = await encryptThings(t, OLD)
  const before = await decryptAll(db, OLD)
  const { id } = (await loadSigningKeys(db.pool, OLD)).current
  assert.deepEqual(await changeSecretTo(NEW, OLD, options), {
    keys: 2,
    webhooks: { reencrypted: 3, undecryptable: [] },
    totp: { reencrypted: 2, undecryptable: [] },
    mails: { reencrypted: 2, undecryptable: 0 },
  })
  assert.deepEqual(await decryptAll(db, OLD), { keys: [], webhooks: [], totp: [], mails: [] })
  const after = await decryptAll(db, NEW)
  assert.deepEqual(after.totp, APPS)
  assert.deepEqual([after.keys.toSorted(), after.webhooks, after.mails], [before.keys.toSorted(), secrets, before.mails])
  assert.equal((await loadSigningKeys(db.pool, NEW)).current.id, id)
  assert.equal(await openSecret(db.pool, db.url, { secret: NEW, dataDir: '' }), NEW)
})

test('the changed columns are the only encrypted ones', async (t) => {
  const { db } = await encryptThings(t, OLD)
  const { rows } = await db.pool.query<{ name: string }>(
    `select table_name || '.' || column_name as name
    from information_schema.columns
    where table_schema = 'public' and column_name ~ 'sealed_|encrypted'
    order by 1`,
  )
  assert.deepEqual(
    rows.map(({ name }) => name),
    [
      'account_mails.encrypted',
      // The token that this successor replaces encrypts it.
      'refresh_tokens.sealed_successor',
      'signing_keys.sealed_private_key',
      'totp_authenticators.encrypted_secret',
      'webhook_endpoints.previous_sealed_secret',
      'webhook_endpoints.sealed_secret',
    ],
  )
})

test('refuses a wrong old secret, the same secret and a parallel change; a repeated change is already done', async (t) => {
  const { db, options } = await encryptThings(t, OLD)
  const untouched = await readEncrypted(db)
  await assert.rejects(changeSecretTo(NEW, OTHER, options), {
    name: 'WrongSecret',
    message: 'STOREFRONT_SECRET is not the secret of this store: set the one that it was last changed to',
  })
  await assert.rejects(changeSecretTo(OLD, OLD, options), { name: 'WrongSecret' })
  assert.deepEqual(await readEncrypted(db), untouched)

  const results = await Promise.allSettled([NEW, OTHER].map((next) => changeSecretTo(next, OLD, options)))
  assert.deepEqual(results.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
  const winner = results[0]?.status === 'fulfilled' ? NEW : OTHER
  assert.equal((await decryptAll(db, winner)).webhooks.length, 3)
  assert.equal(await changeSecretTo(winner, OLD, options), null)
  const third = 'a third secret, and long enough for one'
  const same = await Promise.all([1, 2].map(() => changeSecretTo(third, winner, options)))
  assert.equal(same.filter((change) => change === null).length, 1)
})

test('an undecryptable signing key undoes the change; such webhooks, apps and mails stay and are named', async (t) => {
  const { db, options } = await encryptThings(t, OLD)
  const { rows } = await db.pool.query(`update webhook_endpoints set sealed_secret = $1 where url like '%/a' returning id`, [
    await inTransaction(db.pool, (tx) => createEncryption(OLD, 'account mail').encrypt(tx, 'not for this purpose')),
  ])
  await db.pool.query(`update account_mails set encrypted = 'AAAA' where mail_id = (select min(mail_id::text)::uuid from account_mails)`)
  const broken = await db.pool.query(`update totp_authenticators set encrypted_secret = 'AAAA'
    where user_id = (select min(user_id::text)::uuid from totp_authenticators) returning user_id`)
  const change = await changeSecretTo(NEW, OLD, options)
  assert.deepEqual(change, {
    keys: 2,
    webhooks: { reencrypted: 2, undecryptable: [rows[0].id] },
    totp: { reencrypted: 1, undecryptable: [broken.rows[0].user_id] },
    mails: { reencrypted: 1, undecryptable: 1 },
  })

  await db.pool.query(`update signing_keys set sealed_private_key = '\\x00' where retired_at is not null`)
  const untouched = await readEncrypted(db)
  await assert.rejects(changeSecretTo(OTHER, NEW, options), { name: 'WrongSecret' })
  assert.deepEqual(await readEncrypted(db), untouched)
  assert.equal(await openSecret(db.pool, db.url, { secret: NEW, dataDir: '' }), NEW)
})

test('waits for data that is being encrypted and changes it too; refuses later writes with the old secret', async (t) => {
  const { db, queueMail, options } = await encryptThings(t, OLD)
  const tx = await db.pool.connect()
  await tx.query('begin')
  await queueMail(tx)
  const change = changeSecretTo(NEW, OLD, options)
  await eventually(async () => (await findWaiting(db.pool, tx)).length > 0, { what: 'the change to wait' })
  await tx.query('commit')
  tx.release()
  assert.equal((await change)?.mails.reencrypted, 3)
  const late = inTransaction(db.pool, (tx) => queueMail(tx))
  await assert.rejects(late, { name: 'AppError', code: 'unavailable' })
  await assert.rejects(rotateSigningKeys(db.pool, OLD), { name: 'WrongSecret' })
  await inTransaction(db.pool, (tx) => queueMail(tx, NEW))
  assert.equal((await decryptAll(db, NEW)).mails.length, 4)
})

test('a store whose secret is lost continues with a new one after the documented statements, its endpoints after a rotation', async (t) => {
  const { db } = await encryptThings(t, OLD)
  const document = readFileSync(new URL('../../docs/operate/run.md', import.meta.url), 'utf8')
  const [, statements = ''] = /If you lost it, run `(delete [^`]+)` in the database/.exec(document.replaceAll(/\s+/g, ' ')) ?? []
  assert.notEqual(statements, '')
  await db.pool.query(statements)
  assert.equal(await openSecret(db.pool, db.url, { secret: NEW, dataDir: '' }), NEW)
  await loadSigningKeys(db.pool, NEW)
  const webhooks = createEncryption(NEW, 'webhook secret')
  const { rows } = await db.pool.query<{ id: string }>('select id from webhook_endpoints')
  for (const { id } of rows) await rotateSecret(db.pool, webhooks, id, new Date())
  const { rows: present } = await db.pool.query<{ sealed_secret: string }>('select sealed_secret from webhook_endpoints')
  assert.ok(present.every(({ sealed_secret }) => webhooks.decrypt(sealed_secret)?.startsWith('whsec_')))
})

/** A store that keeps its secret in its folder. */
async function createKeptSecret(t: TestContext) {
  const folder = makeDataFolder(t)
  onCleanup(t, lockDataFolder(folder))
  const old = readOrCreateSecret(folder, 'secret')
  const things = await encryptThings(t, old)
  const config = { secret: null, dataDir: folder.path }
  const file = join(folder.path, 'secret')
  return { ...things, folder, config, old, file, read: () => readFileSync(file, 'utf8').trim() }
}

test('replaces a secret in the folder, and leaves no other one beside it', async (t) => {
  const { db, config, old, file, read, options } = await createKeptSecret(t)
  assert.equal((await replaceKeptSecret(config, options)).keys, 2)
  assert.notEqual(read(), old)
  assert.equal((await decryptAll(db, read())).webhooks.length, 3)
  await Promise.all([1, 2, 3].map(() => replaceKeptSecret(config, options)))
  assert.equal((await decryptAll(db, read())).webhooks.length, 3)
  assert.equal(await openSecret(db.pool, db.url, config), read())
  assert.ok(!existsSync(`${file}.next`))
})

test('a change killed before its commit, or before the renaming of the file, leaves a store that opens', async (t) => {
  const { db, folder, config, old, file, read, options } = await createKeptSecret(t)
  writeSecret(folder, 'secret.next', 'of a change that was killed before its commit')
  assert.equal(await openSecret(db.pool, db.url, config), old)
  await replaceKeptSecret(config, options)
  const next = read()
  for (const open of [
    () => openSecret(db.pool, db.url, config),
    () => Promise.all([1, 2, 3].map(() => openSecret(db.pool, db.url, config))),
  ]) {
    writeSecret(folder, 'secret.next', next)
    writeSecret(folder, 'secret', old)
    assert.deepEqual([...new Set([await open()].flat())], [next])
    assert.deepEqual([read(), existsSync(`${file}.next`)], [next, false])
  }
  writeSecret(folder, 'secret.next', next)
  writeSecret(folder, 'secret', old)
  assert.equal((await replaceKeptSecret(config, options)).keys, 2, 'another change continues from there')
  assert.equal((await decryptAll(db, read())).mails.length, 2)

  writeFileSync(file, `${old}\n`)
  await assert.rejects(openSecret(db.pool, db.url, config), {
    name: 'WrongSecret',
    message: `${file} is not the secret of the store in ${folder.cluster}: restore both from the same backup`,
  })
})
