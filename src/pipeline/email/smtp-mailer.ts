import { createTransport, type NodemailerError } from 'nodemailer'
import { describeError, hostOf, type Mailer, MailRefused, toMessage } from './mailer.ts'

export interface SmtpMailerOptions {
  /** `smtp://user:password@host:587` or `smtps://…`. It carries a password: not for logs. */
  url: string
  from: string
}

/** How long a question to the server may take in each of its steps. A process that stops does not wait for the answer. */
const PROBE_STEP_MS = 5_000

export interface SmtpMailer extends Mailer {
  /** Connects and logs in by a connection of its own. Throws when the server does not take that. */
  probe(): Promise<void>
}

/** Sends mails by SMTP (RFC 5321), over a few connections that are kept open for the next mail. */
export function createSmtpMailer({ url, from }: SmtpMailerOptions): SmtpMailer {
  hostOf(from)
  // What it takes to be let in, the same for mails and for questions.
  const server = { url }
  const transport = createTransport({
    ...server,
    pool: true,
    maxConnections: 5,
    // The job queue is what tries again; once here covers a connection that the server had closed meanwhile.
    maxRequeues: 1,
    idleTimeout: 30_000,
    dnsTimeout: 10_000,
    connectionTimeout: 10_000,
    greetingTimeout: 10_000,
    socketTimeout: 30_000,
  })

  return {
    async send(mail) {
      try {
        await transport.sendMail(toMessage(mail, from))
      } catch (error) {
        throw isAboutThisMail(error as NodemailerError) ? new MailRefused(describeError(error), { cause: error }) : error
      }
    },
    async probe() {
      const [dnsTimeout, connectionTimeout, greetingTimeout, socketTimeout] = Array<number>(4).fill(PROBE_STEP_MS)
      await createTransport({ ...server, dnsTimeout, connectionTimeout, greetingTimeout, socketTimeout }).verify()
    },
    async close() {
      transport.close({ force: true })
    },
  }
}

// A refused login, sender or connection (5xx as well) is the operator's to mend and concerns every mail: those wait.
function isAboutThisMail(error: NodemailerError): boolean {
  return error.permanent === true && (error.command === 'RCPT TO' || error.command === 'DATA')
}
