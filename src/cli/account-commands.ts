import { randomBytes } from 'node:crypto'
import { openSecret } from '../app/secrets.ts'
import { createAdmin } from '../auth/create-admin.ts'
import { parseEmail } from '../auth/email-address.ts'
import { Passwords } from '../auth/passwords/password.ts'
import { changeIssuer, findIssuer } from '../auth/tokens/issuer.ts'
import { rotateSigningKeys } from '../auth/tokens/signing-keys.ts'
import { AppError, OperatorError } from '../errors.ts'
import { type Contexts, EXIT_INTERRUPTED, UsageError } from './command.ts'
import { readPassword } from './read-password.ts'
import { withDatabase } from './run-command.ts'

/** Creates an operator's account. For an empty password one is generated and printed, once. */
export async function createOperator(settings: Contexts['settings'], email: string): Promise<number> {
  assertEmail(email)
  const password = await readPassword('Password (empty: generate one): ')
  if (password === null) return EXIT_INTERRUPTED
  return withDatabase(settings, async ({ pool, terminal }) => {
    const chosen = password === '' ? randomBytes(18).toString('base64url') : password
    const passwords = new Passwords({ threads: 1, maxWaiting: 0 })
    const admin = await createAdmin(pool, passwords, { email, password: chosen })
    terminal.out(`created the admin ${admin.email}`)
    if (password === '') terminal.out(`password: ${chosen}`)
    return 0
  })
}

/** Throws UsageError. */
function assertEmail(text: string): void {
  try {
    parseEmail(text)
  } catch (error) {
    throw error instanceof AppError ? new UsageError(error.message, { cause: error }) : error
  }
}

/** Publishes a key that signs access tokens when every client has it. A running store loads it within a second. */
export async function rotateKeys({ pool, addresses, config, terminal }: Contexts['database']): Promise<number> {
  const { id, signsFrom } = await rotateSigningKeys(pool, await openSecret(pool, addresses.api, config))
  terminal.out(`published the key ${id}\nit signs new access tokens from ${signsFrom.toISOString()} on`)
  return 0
}

/** Sets the issuer: processes of the API then start with this BASE_URL only. */
export async function moveIssuer({ pool, config, terminal }: Contexts['database']): Promise<number> {
  const { baseUrl, isBaseUrlGiven } = config
  if (!isBaseUrlGiven) throw new OperatorError('set BASE_URL to the address that access tokens are to be issued for')
  const before = await findIssuer(pool)
  await changeIssuer(pool, baseUrl)
  terminal.out(
    before === baseUrl
      ? `access tokens are issued for ${baseUrl} already`
      : `access tokens are issued for ${baseUrl} now (${before ?? 'nobody'} before)\nrestart every process of the API with this BASE_URL: until then some refuse the tokens of others`,
  )
  return 0
}
