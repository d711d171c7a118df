import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { type ParsedMail, simpleParser } from 'mailparser'
import { SMTPServer } from 'smtp-server'
import type { Certificate } from './certificates.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { freePort } from './free-port.ts'

export interface Refusal {
  /** SMTP reply code: 4xx for later, 5xx for never. */
  code: number
  text: string
  /** The number of attempts that are refused; all when it is missing. */
  times?: number
}

export interface TestSmtpServer {
  readonly port: number
  readonly url: string
  /** Accepted mails, oldest first. */
  readonly mails: ParsedMail[]
  /** Answers RCPT TO for `address` with a refusal. */
  refuse(address: string, refusal: Refusal): void
  /** Leaves RCPT TO for addresses of this domain unanswered, like a tarpit. */
  hang(domain: string): void
  /** Ends every connection. Idempotent. */
  stop(): Promise<void>
}

/**
 * A real SMTP server on a free port, or on `port`, that stores and parses mails. With a certificate it uses TLS from
 * the first byte.
 */
export async function startSmtpServer(t: Cleanup, port?: number, certificate?: Certificate): Promise<TestSmtpServer> {
  const mails: ParsedMail[] = []
  const refusals = new Map<string, Refusal>()
  const tries = new Map<string, number>()
  const hanging = new Set<string>()
  const server = new SMTPServer({
    authOptional: true,
    ...(certificate === undefined
      ? {}
      : { secure: true, cert: readFileSync(certificate.certFile), key: readFileSync(certificate.keyFile) }),
    disableReverseLookup: true,
    disabledCommands: ['STARTTLS'],
    closeTimeout: 100,
    onRcptTo({ address }, _session, callback) {
      if (hanging.has(address.slice(address.lastIndexOf('@') + 1))) return
      const refusal = refusals.get(address)
      const attempt = (tries.get(address) ?? 0) + 1
      tries.set(address, attempt)
      if (refusal === undefined || attempt > (refusal.times ?? Number.POSITIVE_INFINITY)) return callback()
      return callback(Object.assign(new Error(refusal.text), { responseCode: refusal.code }))
    },
    onData(stream, _session, callback) {
      simpleParser(stream).then((mail) => {
        mails.push(mail)
        callback()
      }, callback)
    },
  })
  // A client cut the connection: a test sees the effect at the client.
  server.on('error', () => {})
  const { promise: listening, resolve } = Promise.withResolvers<void>()
  server.listen(port ?? (await freePort()), '127.0.0.1', resolve)
  await listening
  let stopped: Promise<void> | undefined
  const stop = () => {
    stopped ??= new Promise((resolve) => server.close(() => resolve()))
    return stopped
  }
  onCleanup(t, stop)
  const bound = (server.server.address() as AddressInfo).port
  return {
    port: bound,
    url: `${certificate === undefined ? 'smtp' : 'smtps'}://127.0.0.1:${bound}`,
    mails,
    refuse: (address, refusal) => void refusals.set(address, refusal),
    hang: (domain) => void hanging.add(domain),
    stop,
  }
}
