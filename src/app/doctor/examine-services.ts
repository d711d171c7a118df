import type { Config } from '../../config.ts'
import { createSmtpMailer } from '../../mail/smtp-mailer.ts'
import { inspectBroker } from '../../topic/nats/inspect-broker.ts'
import { check, type Finding, ok, problem, warning } from './finding.ts'

/** The broker and its stream. Creates nothing. */
export function examineBroker({ nats }: Config, timeoutMs: number, now: () => number): Promise<Finding[]> {
  if (nats === null) return Promise.resolve([ok('broker', 'the topic is a table of the database')])
  const remedy = 'check that NATS runs with JetStream and can be reached, NATS_URL and its credentials'
  return check('broker', { remedy, timeoutMs }, async (signal) => {
    const found = await inspectBroker(nats, signal, now)
    const reached = `NATS ${found.version}, ${found.servers} in the cluster`
    const findings = found.doubts.map(({ isProblem, what, remedy: step }) => (isProblem ? problem : warning)('broker', what, step))
    return findings.length > 0
      ? findings
      : [ok('broker', `${reached}; the stream has ${found.replicas} of ${nats.replicas} replicas, all current`)]
  })
}

/** Connects to the mail server, with TLS where it has it, and logs in. Sends no mail. */
export function examineMailServer({ smtpUrl, smtpCaFile, mailFrom, isSenderGiven }: Config, timeoutMs: number): Promise<Finding[]> {
  if (smtpUrl === null) return Promise.resolve([ok('mail server', 'mails are files in DATA_DIR/mail')])
  const { hostname, port, protocol } = new URL(smtpUrl)
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
    return [ok('mail server', `${place} answers${protocol === 'smtps:' ? ' with TLS' : ''} and accepts the login`)]
  })
}
