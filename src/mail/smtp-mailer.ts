import { readFileSync } from 'node:fs'
import { createTransport, type NodemailerError } from 'nodemailer'
import { OperatorError } from '../errors.ts'
import { describeError, hostOf, type Mailer, MailRefused, type Sender, toMessage } from './mailer.ts'

export interface SmtpMailerOptions extends Sender {
  /**
   * `smtp://user:password@host:587` or `smtps://…`. `?maxConnections=3` at the end changes the number of connections.
   * The URL contains a password, so it must not be logged.
   */
  url: string
  /**
   * The PEM file of the authority that signed the server's certificate. By default the authorities of Node.js are
   * trusted.
   */
  caFile?: string | null
  /** Five minutes by default. */
  attemptMs?: number
}

// A mail occupies a connection for some round trips, so this limits the mails a second. Exim accepts 20 connections in
// total by default.
const CONNECTIONS = 16
/**
 * Bounds a whole attempt with its wait for a connection. A slow server could stay within each step's timeout forever.
 */
const ATTEMPT_MS = 300_000
/** The timeout of each step of a probe. A stopping process does not wait for it. */
const PROBE_STEP_MS = 5_000

export interface SmtpMailer extends Mailer {
  /** Connects and logs in on a separate connection. Throws if the server refuses or does not answer. */
  probe(): Promise<void>
}

/** Sends mails by SMTP (RFC 5321), over connections that stay open for the next mail. */
export function createSmtpMailer({ url, caFile = null, attemptMs = ATTEMPT_MS, ...sender }: SmtpMailerOptions): SmtpMailer {
  hostOf(sender.from)
  // Mails and probes use the same server settings.
  const server = { url, ...(caFile === null ? {} : { tls: { ca: readAuthority(caFile) } }) }
  const transport = createTransport({
    ...server,
    pool: true,
    maxConnections: CONNECTIONS,
    // The queue makes the real retries. This retry is for a connection that the server closed while it was idle.
    maxRequeues: 1,
    idleTimeout: 30_000,
    dnsTimeout: 10_000,
    connectionTimeout: 10_000,
    greetingTimeout: 10_000,
    socketTimeout: 30_000,
  })

  return {
    connections: Number(new URL(url).searchParams.get('maxConnections')) || CONNECTIONS,
    async send(mail) {
      try {
        await transport.sendMail({ ...toMessage(mail, sender), signal: AbortSignal.timeout(attemptMs) })
      } catch (error) {
        if ((error as NodemailerError).code === 'EABORT') throw new Error(`the mail server took longer than ${attemptMs / 1_000} s`)
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

// Messages from https://nodejs.org/api/tls.html#x509-certificate-error-codes, because nodemailer replaces the error's
// code.
const UNTRUSTED = /self-signed certificate|unable to (get (local )?issuer certificate|verify the first certificate)/

/** Adds the name of the setting to the message if the authority of the certificate is unknown. */
function nameAuthority(error: Error): Error {
  if (!UNTRUSTED.test(error.message)) return error
  return Object.assign(error, { message: `${error.message}; set SMTP_CA to the file of the authority that signed it` })
}

// A refused login, sender or connection (also by 5xx) concerns every mail. Mails wait until an operator repairs it.
function isAboutThisMail(error: NodemailerError): boolean {
  return error.permanent === true && (error.command === 'RCPT TO' || error.command === 'DATA')
}
