import { fingerprintOf } from '../auth/encryption.ts'
import { findFingerprint, lockFingerprint, type Purpose, reencrypt, updateFingerprint } from '../auth/store-secret.ts'
import { reencryptSigningKeys, WrongSecret } from '../auth/tokens/signing-keys.ts'
import { dataFolder, generateSecret, renameSecret, writeSecret } from '../db/embedded/data-folder.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { reencryptQueuedMails } from '../mail/account-mail.ts'
import { reencryptSecrets } from '../webhooks/webhook-endpoints.ts'
import {
  NEXT_SECRET_FILE,
  openSecret,
  recoverSecret,
  SECRET_FILE,
  type SecretSettings,
  whileNobodyChangesSecret,
  wrongSetting,
} from './secrets.ts'

/** Numbers of re-encrypted values, and values that could not be decrypted and are unchanged. */
export interface SecretChange {
  keys: number
  webhooks: Awaited<ReturnType<typeof reencryptSecrets>>
  mails: Awaited<ReturnType<typeof reencryptQueuedMails>>
}

export interface ChangeOptions {
  pool: Pool
  /** The database's address. */
  url: string
}

/**
 * Re-encrypts with `next` what the setting STOREFRONT_SECRET has encrypted, in one transaction. Null when the store has that secret already,
 * such as after an interrupted run. Throws WrongSecret.
 */
export async function changeSecretTo(next: string, setting: string, { pool, url }: ChangeOptions): Promise<SecretChange | null> {
  if (next === setting) throw new WrongSecret('the new secret is the present STOREFRONT_SECRET: nothing was changed')
  const isDone = (fingerprint: string | null) => fingerprint === fingerprintOf(next)
  if (isDone(await findFingerprint(pool))) return null
  await openSecret(pool, url, { secret: setting, dataDir: '' })
  return whileNobodyChangesSecret(url, () =>
    inTransaction(pool, async (tx) => {
      const fingerprint = await lockFingerprint(tx, 'update')
      if (isDone(fingerprint)) return null
      if (fingerprint !== fingerprintOf(setting)) throw wrongSetting()
      return reencryptAll(tx, setting, next)
    }),
  )
}

/**
 * Replaces the secret in the store's folder by a new one and re-encrypts with it. After a kill at any point, `openSecret` finds the secret
 * that belongs to the database.
 */
export async function replaceKeptSecret(config: SecretSettings, { pool, url }: ChangeOptions): Promise<SecretChange> {
  await openSecret(pool, url, config)
  const folder = dataFolder(config.dataDir)
  const next = generateSecret()
  return whileNobodyChangesSecret(url, async () => {
    const change = await inTransaction(pool, async (tx) => {
      // Waits for the commit of a process that was killed: until then it is not known which of the two files is valid.
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
  const mails = await reencryptQueuedMails(tx, reencryptText('account mail'))
  await updateFingerprint(tx, to)
  return { keys, webhooks, mails }
}
