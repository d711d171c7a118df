import { join } from 'node:path'
import { fingerprintOf } from '../auth/encryption.ts'
import { claimSecret, findFingerprint, lockFingerprint } from '../auth/store-secret.ts'
import { WrongSecret } from '../auth/tokens/signing-keys.ts'
import type { Config } from '../config.ts'
import {
  type DataFolder,
  dataFolder,
  missingSecretError,
  readOrCreateSecret,
  readSecret,
  renameSecret,
} from '../db/embedded/data-folder.ts'
import { connectClient, type Pool } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'

export const SECRET_FILE = 'secret'
/** The secret to which a change in progress, or a killed one, commits. */
export const NEXT_SECRET_FILE = 'secret.next'

export type SecretSettings = Pick<Config, 'secret' | 'dataDir'>

/**
 * The secret that encrypts signing keys, webhook secrets and account mails: the setting, or the one in the embedded store's folder. `url` is
 * the database's address. Throws WrongSecret when it is not the store's, and SecretUnusable when its file is missing.
 */
export async function openSecret(pool: Pool, url: string, { secret: setting, dataDir }: SecretSettings): Promise<string> {
  const folder = dataFolder(dataDir)
  // A store that has encrypted something must not get a new secret when the file is missing.
  const secret =
    setting ?? readSecret(folder, SECRET_FILE) ?? ((await findFingerprint(pool)) === null ? readOrCreateSecret(folder, SECRET_FILE) : null)
  if (secret !== null && (await inTransaction(pool, (tx) => claimSecret(tx, secret)))) return secret
  if (setting !== null) throw wrongSetting()
  return whileNobodyChangesSecret(url, () =>
    inTransaction(pool, async (tx) => recoverSecret(folder, await lockFingerprint(tx, 'key share'))),
  )
}

export function wrongSetting(): WrongSecret {
  return new WrongSecret('STOREFRONT_SECRET is not the secret of this store: set the one that it was last changed to')
}

/**
 * The secret in the folder with this fingerprint. Finishes a change that was killed between its commit and the renaming of its file.
 * Call it under `whileNobodyChangesSecret`. Throws WrongSecret or SecretUnusable.
 */
export function recoverSecret(folder: DataFolder, fingerprint: string | null): string {
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

/** Runs `work` under a lock on the store's secret and its files. The lock has its own connection and outlives a transaction. */
export async function whileNobodyChangesSecret<T>(url: string, work: () => Promise<T>): Promise<T> {
  const client = await connectClient(url, 'storefront-secret')
  try {
    await client.query(`select pg_advisory_lock(hashtextextended('storefront secret', 0))`)
    return await work()
  } finally {
    await client.end()
  }
}
