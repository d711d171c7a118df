import { decrypt } from '../src/auth/encryption.ts'
import { TEST_SECRET, type TestStore } from './store.ts'

interface QueuedMail {
  kind: string
  to?: string
  token?: string
  isForConsole?: boolean
}

/**
 * The account mails in the queue of a store without the role email, oldest first; those that send nothing too.
 * The chance in ids of one millisecond is left out: mails of one transaction are in the order of its commands.
 */
export async function readAccountMails({ pool }: Pick<TestStore, 'pool'>): Promise<QueuedMail[]> {
  const { rows } = await pool.query<{ encrypted: string }>(
    'select encrypted from account_mails order by left(mail_id::text, 13), cmin::text::bigint, mail_id',
  )
  return rows.map(({ encrypted }) => JSON.parse(decrypt(TEST_SECRET, 'account mail', Buffer.from(encrypted, 'base64'))))
}

/** The token of the newest mail of this kind. */
export async function newestToken(store: Pick<TestStore, 'pool'>, kind: string): Promise<string> {
  const mail = (await readAccountMails(store)).findLast((queued) => queued.kind === kind)
  if (mail?.token === undefined) throw new Error(`there is no mail ${kind} with a token`)
  return mail.token
}
