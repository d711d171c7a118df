import { randomBytes } from 'node:crypto'
import { secretOf } from './app/secrets.ts'
import { createAdmin } from './auth/create-admin.ts'
import { Passwords } from './auth/password.ts'
import { rotateSigningKeys } from './auth/signing-keys.ts'
import { type Command, type Terminal, withDatabase } from './commands.ts'
import type { Config } from './config.ts'

/** Makes an operator's account. An empty password means: make one up and print it, once. */
export function adminCreateCommand(config: Config, terminal: Terminal, email: string, password: string): Command {
  return withDatabase(config, terminal, async (pool) => {
    const chosen = password === '' ? randomBytes(18).toString('base64url') : password
    const passwords = new Passwords({ threads: 1, maxWaiting: 0 })
    const admin = await createAdmin(pool, passwords, { email, password: chosen })
    terminal.out(`made the admin ${admin.email}`)
    if (password === '') terminal.out(`password: ${chosen}`)
    return 0
  })
}

/** Publishes a key that signs access tokens once nobody can lack it. A store that runs takes it up within a second. */
export function keysRotateCommand(config: Config, terminal: Terminal): Command {
  return withDatabase(config, terminal, async (pool) => {
    const { id, signsFrom } = await rotateSigningKeys(pool, secretOf(config))
    terminal.out(`published the key ${id}\nit signs new access tokens from ${signsFrom.toISOString()} on`)
    return 0
  })
}
