import { randomBytes } from 'node:crypto'
import { auditContextOfCommand, recordActivity } from '../activity/record-activity.ts'
import { openSecret } from '../app/secrets.ts'
import { createAdmin } from '../auth/create-admin.ts'
import { canonicalEmail, parseEmail } from '../auth/email-address.ts'
import { resetFactors } from '../auth/factors/reset-factors.ts'
import { listOperators, lockRoleHolder, setRole } from '../auth/operators/operators.ts'
import { Passwords } from '../auth/passwords/password.ts'
import { createEncryption } from '../auth/store-secret.ts'
import { changeIssuer, findIssuer } from '../auth/tokens/issuer.ts'
import { rotateSigningKeys } from '../auth/tokens/signing-keys.ts'
import { findUserByEmail } from '../auth/users.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError, OperatorError } from '../errors.ts'
import { isOperatorRole, type OperatorRole } from '../http/scopes.ts'
import { queueAccountMail } from '../mail/account-mail.ts'
import { type Contexts, EXIT_INTERRUPTED, UsageError } from './command.ts'
import { printRows } from './format-table.ts'
import { readPassword } from './read-password.ts'
import { withDatabase } from './run-command.ts'

/** Creates an operator's account. If the entered password is empty, generates one and prints it once. */
export async function createOperator(settings: Contexts['settings'], email: string, role: OperatorRole): Promise<number> {
  assertEmail(email)
  const password = await readPassword('Password (empty: generate one): ')
  if (password === null) return EXIT_INTERRUPTED
  return withDatabase(settings, async ({ pool, terminal }) => {
    const chosen = password === '' ? randomBytes(18).toString('base64url') : password
    const passwords = new Passwords({ threads: 1, maxWaiting: 0 })
    const creating = createAdmin(pool, passwords, { email, password: chosen, role }, auditContextOfCommand('admin create'))
    const operator = await withRemedy(creating)
    terminal.out(`created the operator ${operator.email} with the role ${role}`)
    if (password === '') terminal.out(`password: ${chosen}`)
    return 0
  })
}

export async function printOperators({ pool, terminal }: Contexts['database'], json: boolean): Promise<number> {
  const columns = ['id', 'email', 'role', 'verified', 'created_at']
  const rows = (await listOperators(pool)).map(({ id, email, role, is_email_verified, created_at }) => [
    ...[id, email, role],
    ...[is_email_verified ? 'yes' : 'no', created_at.toISOString()],
  ])
  return printRows(terminal, { columns, rows }, json)
}

export async function changeRole({ pool, terminal }: Contexts['database'], address: string, role: OperatorRole | null): Promise<number> {
  assertEmail(address)
  const email = canonicalEmail(address)
  const changing = inTransaction(pool, async (tx) => {
    const holder = await lockRoleHolder(tx, { email })
    if (holder === null) throw new OperatorError(`there is no account ${email}; storefront admin create makes one`)
    if (role === null && !isOperatorRole(holder.role)) throw new OperatorError(`${email} is no operator`)
    return setRole(tx, holder, role ?? 'customer', auditContextOfCommand(role === null ? 'admin remove' : 'admin role'))
  })
  await withRemedy(changing)
  terminal.out(role === null ? `${email} is no operator any more` : `${email} has the role ${role}`)
  return 0
}

const REMEDIES: Partial<Record<string, string>> = {
  email_taken: 'an account with this e-mail address exists already: storefront admin role EMAIL ROLE gives it a role',
  address_unproven:
    'nobody has proven that this account belongs to the holder of its address: a password reset by mail proves it; run the command again then',
  last_admin: 'the store would have no admin: make another one first, with storefront admin create or admin role',
}

async function withRemedy<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    const remedy = error instanceof AppError ? REMEDIES[error.code] : undefined
    throw remedy === undefined ? error : new OperatorError(remedy, { cause: error })
  }
}

export async function resetFactorsOf({ pool, addresses, config, terminal }: Contexts['database'], email: string): Promise<number> {
  assertEmail(email)
  const encryption = createEncryption(await openSecret(pool, addresses.api, config), 'account mail')
  const removed = await inTransaction(pool, async (tx) => {
    const user = await findUserByEmail(tx, canonicalEmail(email))
    if (user === null) throw new OperatorError(`there is no account with the address ${email}`)
    return resetFactors(tx, user.id, {
      sendAccountMail: (within, mail) => queueAccountMail(within, encryption, mail),
      auditContext: auditContextOfCommand('admin reset-factors'),
      now: new Date(),
    })
  })
  terminal.out(`removed: passkeys ${removed.passkeys}, authenticator apps ${removed.totp}; ended sessions: ${removed.ended.length}`)
  if (removed.isLastOfAdmins && config.isAdminFactorRequired)
    terminal.out('no admin has a second factor now: none is required of admins until one of them sets one up again')
  return 0
}

function assertEmail(text: string): void {
  try {
    parseEmail(text)
  } catch (error) {
    throw error instanceof AppError ? new UsageError(error.message, { cause: error }) : error
  }
}

/** Publishes a signing key when every client has it. A running store loads it within a second. */
export async function rotateKeys({ pool, addresses, config, terminal }: Contexts['database']): Promise<number> {
  const { id, signsFrom } = await rotateSigningKeys(
    pool,
    await openSecret(pool, addresses.api, config),
    auditContextOfCommand('signing-keys rotate'),
  )
  terminal.out(`published the key ${id}\nit signs new access tokens from ${signsFrom.toISOString()} on`)
  return 0
}

export async function moveIssuer({ pool, config, terminal }: Contexts['database']): Promise<number> {
  const { baseUrl, isBaseUrlGiven } = config
  if (!isBaseUrlGiven) throw new OperatorError('set BASE_URL to the address that access tokens are to be issued for')
  const before = await findIssuer(pool)
  if (before !== baseUrl) {
    await inTransaction(pool, async (tx) => {
      await changeIssuer(tx, baseUrl)
      const states = { before: { issuer: before }, after: { issuer: baseUrl } }
      await recordActivity(tx, auditContextOfCommand('issuer change'), { subjectType: 'store', subjectId: 'issuer', ...states })
    })
  }
  terminal.out(
    before === baseUrl
      ? `access tokens are issued for ${baseUrl} already`
      : `access tokens are issued for ${baseUrl} now (${before ?? 'nobody'} before)\nrestart every process of the API with this BASE_URL: until then some refuse the tokens of others`,
  )
  return 0
}
