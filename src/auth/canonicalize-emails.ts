import type { Logger } from 'pino'
import type { Pool } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { canonicalEmail } from './email-address.ts'
import { updateEmail } from './users.ts'

const PAGE_SIZE = 1_000

/**
 * Brings addresses that an earlier release has stored into today's form. Of two accounts of one mailbox the one in another form stays as
 * it is, where no login finds it any more, and is reported by its id. Right to run anywhere, at any time, twice.
 */
export async function canonicalizeEmails(pool: Pool, logger: Logger): Promise<void> {
  let changed = 0
  const twins: string[] = []
  for (let after = '00000000-0000-0000-0000-000000000000'; ; ) {
    const page = await listNotAscii(pool, after)
    for (const { id, email } of page) {
      const form = canonicalEmail(email)
      if (form === email) continue
      if (await changeUnlessTaken(pool, id, form)) changed++
      else twins.push(id)
    }
    const last = page.at(-1)
    if (last === undefined) break
    after = last.id
  }
  if (changed > 0) logger.info({ changed }, 'brought e-mail addresses into one form')
  if (twins.length > 0) logger.warn({ user_ids: twins }, 'two accounts of one mailbox: nobody can log in to these')
}

/** The index `users_email_not_ascii_idx` has exactly these. */
async function listNotAscii(pool: Pool, after: string): Promise<{ id: string; email: string }[]> {
  const { rows } = await pool.query<{ id: string; email: string }>(
    'select id, email from users where octet_length(email) > length(email) and id > $1 order by id limit $2',
    [after, PAGE_SIZE],
  )
  return rows
}

async function changeUnlessTaken(pool: Pool, id: string, email: string): Promise<boolean> {
  try {
    await updateEmail(pool, id, email)
    return true
  } catch (error) {
    if (error instanceof AppError && error.code === 'email_taken') return false
    throw error
  }
}
