import { join } from 'node:path'
import type { Logger } from 'pino'
import { auditContextOfCommand, recordActivity } from '../activity/record-activity.ts'
import { fingerprintOf } from '../auth/encryption.ts'
import { reencryptTotpSecrets } from '../auth/factors/totp-authenticators.ts'
import { claimSecret, findFingerprint, lockFingerprint, type Purpose, reencrypt, updateFingerprint } from '../auth/store-secret.ts'
import { reencryptSigningKeys, WrongSecret } from '../auth/tokens/signing-keys.ts'
import type { Config } from '../config.ts'
import {
  type DataFolder,
  dataFolder,
  generateSecret,
  missingSecretError,
  readOrCreateSecret,
  readSecret,
  renameSecret,
  writeSecret,
} from '../db/embedded/data-folder.ts'
import type { FreshCopies } from '../db/fresh-copies.ts'
import { connectClient, type Pool, type Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { reencryptQueuedMails } from '../mail/account-mail.ts'
import { reencryptSecrets } from '../webhooks/webhook-endpoints.ts'

const MAX_AGE_MS = 4_000
const SECRET_FILE = 'secret'
/** The file of a new secret during a change. A change in progress, or a killed one, commits to this secret. */
const NEXT_SECRET_FILE = 'secret.next'

type SecretSettings = Pick<Config, 'secret' | 'dataDir'>

/**
 * The secret to encrypt with. Throws WrongSecret if it is not the store's, and SecretUnusable if its file is missing.
 */
export async function openSecret(pool: Pool, url: string, { secret: setting, dataDir }: SecretSettings): Promise<string> {
  const folder = dataFolder(dataDir)
  // A store that has encrypted data must not get a new secret because the file is missing.
  const secret =
    setting ?? readSecret(folder, SECRET_FILE) ?? ((await findFingerprint(pool)) === null ? readOrCreateSecret(folder, SECRET_FILE) : null)
  if (secret !== null && (await inTransaction(pool, (tx) => claimSecret(tx, secret)))) return secret
  if (setting !== null) throw wrongSetting()
  return whileNobodyChangesSecret(url, () =>
    inTransaction(pool, async (tx) => recoverSecret(folder, await lockFingerprint(tx, 'key share'))),
  )
}

function wrongSetting(): WrongSecret {
  return new WrongSecret('STOREFRONT_SECRET is not the secret of this store: set the one that it was last changed to')
}

/** Finishes a change that was killed before its file was renamed. Call only inside `whileNobodyChangesSecret`. */
function recoverSecret(folder: DataFolder, fingerprint: string | null): string {
  const isStores = (secret: string | null): secret is string => secret !== null && fingerprintOf(secret) === fingerprint
  const secret = readSecret(folder, SECRET_FILE)
  if (isStores(secret)) return secret
  const next = readSecret(folder, NEXT_SECRET_FILE)
  if (isStores(next)) {
    renameSecret(folder, NEXT_SECRET_FILE, SECRET_FILE)
    return next
  }
  if (secret === null) throw missingSecretError(folder, SECRET_FILE)
  throw new WrongSecret(
    `${join(folder.path, SECRET_FILE)} is not the secret of the store in ${folder.cluster}: restore both from the same backup`,
  )
}

/** The lock has its own connection and outlives a transaction. */
async function whileNobodyChangesSecret<T>(url: string, work: () => Promise<T>): Promise<T> {
  const client = await connectClient(url, 'storefront-secret')
  try {
    await client.query(`select pg_advisory_lock(hashtextextended('storefront secret', 0))`)
    return await work()
  } finally {
    await client.end()
  }
}

/** Values that could not be decrypted are unchanged. */
export interface SecretChange {
  keys: number
  webhooks: Awaited<ReturnType<typeof reencryptSecrets>>
  totp: Awaited<ReturnType<typeof reencryptTotpSecrets>>
  mails: Awaited<ReturnType<typeof reencryptQueuedMails>>
}

interface ChangeOptions {
  pool: Pool
  url: string
}

/** Returns null when the store has the secret already, such as after an interrupted run. Throws WrongSecret. */
export async function changeSecretTo(next: string, setting: string, { pool, url }: ChangeOptions): Promise<SecretChange | null> {
  if (next === setting) throw new WrongSecret('the new secret is the present STOREFRONT_SECRET: nothing was changed')
  const isDone = (fingerprint: string | null) => fingerprint === fingerprintOf(next)
  if (isDone(await findFingerprint(pool))) return null
  try {
    await openSecret(pool, url, { secret: setting, dataDir: '' })
  } catch (error) {
    // Another process has just made the same change.
    if (error instanceof WrongSecret && isDone(await findFingerprint(pool))) return null
    throw error
  }
  return whileNobodyChangesSecret(url, () =>
    inTransaction(pool, async (tx) => {
      const fingerprint = await lockFingerprint(tx, 'update')
      if (isDone(fingerprint)) return null
      if (fingerprint !== fingerprintOf(setting)) throw wrongSetting()
      return reencryptAll(tx, setting, next)
    }),
  )
}

/** Replaces the secret in the store's folder. After a kill at any point, `openSecret` finds the database's secret. */
export async function replaceKeptSecret(config: SecretSettings, { pool, url }: ChangeOptions): Promise<SecretChange> {
  await openSecret(pool, url, config)
  const folder = dataFolder(config.dataDir)
  const next = generateSecret()
  return whileNobodyChangesSecret(url, async () => {
    const change = await inTransaction(pool, async (tx) => {
      // Waits for the commit of a killed process. Until then the valid file is unknown.
      const current = recoverSecret(folder, await lockFingerprint(tx, 'update'))
      writeSecret(folder, NEXT_SECRET_FILE, next)
      return reencryptAll(tx, current, next)
    })
    renameSecret(folder, NEXT_SECRET_FILE, SECRET_FILE)
    return change
  })
}

async function reencryptAll(tx: Transaction, from: string, to: string): Promise<SecretChange> {
  const reencryptText = (purpose: Purpose) => (text: string) =>
    reencrypt(from, to, purpose, Buffer.from(text, 'base64'))?.toString('base64') ?? null
  const keys = await reencryptSigningKeys(tx, from, to)
  const webhooks = await reencryptSecrets(tx, reencryptText('webhook secret'))
  const totp = await reencryptTotpSecrets(tx, reencryptText('totp secret'))
  const mails = await reencryptQueuedMails(tx, reencryptText('account mail'))
  await updateFingerprint(tx, to)
  const after = {
    signing_keys: keys,
    webhook_secrets: webhooks.reencrypted,
    totp_secrets: totp.reencrypted,
    account_mails: mails.reencrypted,
  }
  await recordActivity(tx, auditContextOfCommand('secret change'), { subjectType: 'store', subjectId: 'secret', before: null, after })
  return { keys, webhooks, totp, mails }
}

/**
 * Watches the store's secret. After `storefront secret change`, work that needs the secret waits until the next start.
 */
export function watchSecret({ copies, secret, logger }: { copies: FreshCopies; secret: string; logger: Logger }) {
  const own = fingerprintOf(secret)
  const watch = { isOutdated: false }
  copies.add<{ fingerprint: string | null }>({
    name: 'secret',
    columns: ['fingerprint'],
    read: () => sql`select (select fingerprint from encryption_secrets) as fingerprint`,
    maxAgeMs: MAX_AGE_MS,
    learn({ fingerprint }) {
      const isCurrent = fingerprint === null || fingerprint === own
      if (isCurrent !== watch.isOutdated) return
      watch.isOutdated = !isCurrent
      if (isCurrent) logger.info('this process has the secret of the store again')
      else
        logger.error(
          "the store's secret was changed: webhooks and account mails of this process wait until it is restarted with the new one",
        )
    },
  })
  return watch as { readonly isOutdated: boolean }
}
