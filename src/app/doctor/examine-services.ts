import type { Config } from '../../config.ts'
import { createSmtpMailer } from '../../mail/smtp-mailer.ts'
import { inspectBroker } from '../../topic/nats/inspect-broker.ts'
import { check, type Finding, ok, problem, warning } from './finding.ts'

export function examineBroker({ nats }: Config, timeoutMs: number, now: () => number): Promise<Finding[]> {
  if (nats === null) return Promise.resolve([ok('broker', 'the topic is a table of the database')])
  const remedy = 'check that NATS runs with JetStream and can be reached, NATS_URL and its credentials'
  return check('broker', { remedy, timeoutMs }, async (signal) => {
    const found = await inspectBroker(nats, signal, now).catch((error: Error) => {
      const places = nats.servers.split(',').map((server) => new URL(server).host)
      throw new Error(`${places.join(', ')}: ${error.message}`, { cause: error })
    })
    const reached = `NATS ${found.version}, ${found.servers} in the cluster`
    const findings = found.doubts.map(({ isProblem, what, remedy: step }) => (isProblem ? problem : warning)('broker', what, step))
    const single = found.servers === 1 ? '; a single server needs sync_interval: always, which is not examined' : ''
    return findings.length > 0
      ? findings
      : [ok('broker', `${reached}; the stream has ${found.replicas} of ${nats.replicas} replicas, all current${single}`)]
  })
}

/** Logs in to the mail server, with TLS if the server supports it. Sends no mail. */
export function examineMailServer({ smtpUrl, smtpCaFile, mailFrom, isSenderGiven }: Config, timeoutMs: number): Promise<Finding[]> {
  if (smtpUrl === null) return Promise.resolve([ok('mail server', 'mails are files in DATA_DIR/mail')])
  const { hostname, port, protocol, username } = new URL(smtpUrl)
  const place = `${hostname}${port === '' ? '' : `:${port}`}`
  const remedy = 'check that the mail server runs and can be reached, SMTP_URL with its login, and SMTP_CA; mails wait meanwhile'
  return check('mail server', { remedy, timeoutMs }, async () => {
    const mailer = createSmtpMailer({ url: smtpUrl, from: mailFrom, caFile: smtpCaFile })
    await mailer.probe().finally(() => mailer.close())
    if (!isSenderGiven)
      return [
        warning(
          'mail server',
          `${place} answers, and MAIL_FROM is not set: mails come from ${mailFrom}`,
          'set MAIL_FROM to an address of the shop',
        ),
      ]
    return [
      ok(
        'mail server',
        `${place} answers${protocol === 'smtps:' ? ' with TLS' : ''}${username === '' ? ' without a login' : ' and accepts the login'}`,
      ),
    ]
  })
}

/** Requests a purge without tags from Varnish, which removes nothing. */
export async function examineCaches({ cdnPurgeUrls, roles }: Config, timeoutMs: number): Promise<Finding[]> {
  if (cdnPurgeUrls.length === 0) return [ok('cache', 'no cache is purged')]
  if (!roles.includes('stream')) return [ok('cache', 'not asked: processes with the role stream purge')]
  const examined = cdnPurgeUrls.map((url) => {
    const { protocol, host } = new URL(url)
    if (protocol !== 'varnish:')
      return [ok('cache', `${protocol.slice(0, -1)} is not asked: only a purge shows whether it accepts the token`)]
    const remedy = 'check that Varnish runs and can be reached, and CDN_PURGE_URL; purges wait meanwhile'
    return check('cache', { remedy, timeoutMs }, async (signal) => [await examineVarnish(host, remedy, signal)])
  })
  return (await Promise.all(examined)).flat()
}

async function examineVarnish(host: string, unreachable: string, signal: AbortSignal): Promise<Finding> {
  const answer = await fetch(`http://${host}/`, { method: 'PURGE', redirect: 'manual', signal }).catch((error: Error) => {
    if (signal.aborted) throw error
    return error
  })
  if (answer instanceof Error) {
    const { code, message } = (answer.cause ?? answer) as NodeJS.ErrnoException
    return problem('cache', `Varnish at ${host}: ${code ?? message}`, unreachable)
  }
  await answer.body?.cancel()
  // deploy/varnish/default.vcl answers a purge without tags with 400. Another VCL may accept it.
  if (answer.ok || answer.status === 400) return ok('cache', `Varnish at ${host} lets this machine purge`)
  if (answer.status === 403)
    return problem(
      'cache',
      `Varnish at ${host} refuses purges of this machine`,
      "add this machine's address to the purgers in addresses.vcl",
    )
  const remedy = 'set CDN_PURGE_URL to the address of Varnish with deploy/varnish/default.vcl'
  return problem('cache', `what answers at ${host} does not purge (status ${answer.status})`, remedy)
}
