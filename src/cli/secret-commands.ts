import { changeSecretTo, replaceKeptSecret, type SecretChange } from '../app/secrets.ts'
import { ConfigError } from '../config/settings.ts'
import { checkSecret } from '../config.ts'
import { type Contexts, EXIT_INTERRUPTED, type Terminal } from './command.ts'
import { readPassword } from './read-password.ts'
import { withDatabase } from './run-command.ts'

/** A secret in the store's folder is generated, any other is read. Throws ConfigError or WrongSecret. */
export async function changeSecret(settings: Contexts['settings']): Promise<number> {
  const { config, terminal } = settings
  const { secret } = config
  if (secret === null) {
    return withDatabase(settings, async ({ pool, addresses }) => {
      report(await replaceKeptSecret(config, { pool, url: addresses.api }), terminal)
      terminal.out(`the new secret is in ${config.dataDir}/secret: restart the store if it is running`)
      return 0
    })
  }
  const given = await readPassword('New secret: ')
  // A typing error in an invisible secret would lock the store.
  const repeated = given !== null && process.stdin.isTTY ? await readPassword('The same again: ') : given
  if (given === null || repeated === null) return EXIT_INTERRUPTED
  if (given !== repeated) throw new ConfigError('the two secrets are not the same; nothing was changed')
  const next = checkSecret('the new secret', given.trim())
  return withDatabase(settings, async ({ pool, addresses }) => {
    const change = await changeSecretTo(next, secret, { pool, url: addresses.api })
    if (change === null) terminal.out('the store has this secret already: nothing was changed')
    else report(change, terminal)
    terminal.out('set STOREFRONT_SECRET to the new secret and restart every process: until then webhooks and account mails wait')
    return 0
  })
}

function report({ keys, webhooks, totp, mails }: SecretChange, { out, err }: Terminal): void {
  out(
    `encrypted again: signing keys ${keys}, secrets of webhooks ${webhooks.reencrypted}, of authenticator apps ${totp.reencrypted}, account mails ${mails.reencrypted}`,
  )
  for (const id of webhooks.undecryptable)
    err(`the secret of the webhook endpoint ${id} cannot be decrypted: storefront webhook rotate ${id}`)
  for (const id of totp.undecryptable) err(`the authenticator app of the account ${id} cannot be decrypted: storefront admin reset-factors`)
  if (mails.undecryptable > 0) err(`account mails that cannot be decrypted and will expire: ${mails.undecryptable}`)
}
