import { readFileSync } from 'node:fs'
import { createTransport, type NodemailerError } from 'nodemailer'
import { OperatorError } from '../errors.ts'
import { describeError, hostOf, type Mailer, MailRefused, toMessage } from './mailer.ts'

export interface SmtpMailerOptions {
  /** `smtp://user:password@host:587` or `smtps://…`. It carries a password: not for logs. */
  url: string
  from: string
  /** PEM file of the authority that signed the server's certificate, null or missing for those that Node.js knows. */
  caFile?: string | null
}

/** How long a question to the server may take in each of its steps. A process that stops does not wait for the answer. */
const PROBE_STEP_MS = 5_000

export interface SmtpMailer extends Mailer {
  /** Connects and logs in by a connection of its own. Throws when the server does not take that. */
  probe(): Promise<void>
}

/** Sends mails by SMTP (RFC 5321), over a few connections that are kept open for the next mail. */
export function createSmtpMailer({ url, from, caFile = null }: SmtpMailerOptions): SmtpMailer {
  hostOf(from)
  // What it takes to be let in, the same for mails and for questions.
  const server = { url, ...(caFile === null ? {} : { tls: { ca: readAuthority(caFile) } }) }
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
        throw isAboutThisMail(error as NodemailerError)
          ? new MailRefused(describeError(error), { cause: error })
          : nameAuthority(error as Error)
      }
    },
    async probe() {
      const [dnsTimeout, connectionTimeout, greetingTimeout, socketTimeout] = Array<number>(4).fill(PROBE_STEP_MS)
      const probing = createTransport({ ...server, dnsTimeout, connectionTimeout, greetingTimeout, socketTimeout })
      await probing.verify().catch((error: Error) => {
        throw nameAuthority(error)
      })
    },
    async close() {
      transport.close({ force: true })
    },
  }
}

function readAuthority(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new OperatorError(`SMTP_CA: ${file} cannot be read (${(error as NodeJS.ErrnoException).code})`, { cause: error })
  }
}

// https://nodejs.org/api/tls.html#x509-certificate-error-codes as they stand in the message: nodemailer puts a code of its own on the error.
const UNTRUSTED = /self-signed certificate|unable to (get (local )?issuer certificate|verify the first certificate)/

/** Names the setting where the mail server's certificate is signed by an authority that is not known. */
function nameAuthority(error: Error): Error {
  if (!UNTRUSTED.test(error.message)) return error
  return Object.assign(error, { message: `${error.message}; set SMTP_CA to the file of the authority that signed it` })
}

// A refused login, sender or connection (5xx as well) is the operator's to mend and concerns every mail: those wait.
function isAboutThisMail(error: NodemailerError): boolean {
  return error.permanent === true && (error.command === 'RCPT TO' || error.command === 'DATA')
}
