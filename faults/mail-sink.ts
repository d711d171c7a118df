import { SMTPServer } from 'smtp-server'
import { type Cleanup, onCleanup } from '../test/cleanup.ts'
import { freePort } from '../test/free-port.ts'

export type MailFault = 'none' | 'temporary refusal'

/** An SMTP server that counts accepted mails by Message-ID and misbehaves on request. Shares no code with the store. */
export interface MailSink {
  readonly url: string
  /** The number of times that each event's mail was accepted, with or without an answer to the client. */
  readonly taken: Map<string, number>
  fault: MailFault
  /** The number of mails to accept without an answer, by cutting the connection instead. */
  cuts: number
  /**
   * Drops a mail whose header with this name has the value of an accepted mail, like some providers. Null drops none.
   */
  idempotencyHeader: string | null
  /** The number of dropped mails. */
  readonly dropped: { count: number }
  /** Refuses every mail to this address permanently. */
  refusedAddress: string | null
  setListening(isListening: boolean): Promise<void>
}

export async function startMailSink(t: Cleanup): Promise<MailSink> {
  const taken = new Map<string, number>()
  const keys = new Set<string>()
  const port = await freePort()
  let server = await listen(port)
  const sink: MailSink = {
    url: `smtp://127.0.0.1:${port}`,
    taken,
    fault: 'none',
    cuts: 0,
    idempotencyHeader: null,
    dropped: { count: 0 },
    refusedAddress: null,
    async setListening(isListening) {
      if (isListening) server = await listen(port)
      else await close(server)
    },
  }
  onCleanup(t, () => close(server))
  return sink

  async function listen(port: number): Promise<SMTPServer> {
    const fresh = new SMTPServer({
      authOptional: true,
      disableReverseLookup: true,
      disabledCommands: ['STARTTLS'],
      closeTimeout: 50,
      onRcptTo({ address }, _session, callback) {
        if (sink.fault === 'temporary refusal') return callback(reply(421, 'come back later'))
        return address === sink.refusedAddress ? callback(reply(550, 'no such mailbox')) : callback()
      },
      onData(stream, session, callback) {
        const chunks: Buffer[] = []
        stream.on('data', (chunk) => chunks.push(chunk))
        stream.on('end', () => {
          const mail = Buffer.concat(chunks).toString()
          const [, id = ''] = /^message-id:\s*<([^@>]+)@/im.exec(mail) ?? []
          const key = keyOf(mail, sink.idempotencyHeader)
          if (key !== null && keys.has(key)) sink.dropped.count += 1
          else taken.set(id, (taken.get(id) ?? 0) + 1)
          if (key !== null) keys.add(key)
          if (sink.cuts-- <= 0) return callback()
          const connections = (fresh as unknown as { connections: Set<{ id: string; _socket: { destroy(): void } }> }).connections
          for (const connection of connections) if (connection.id === session.id) connection._socket.destroy()
        })
      },
    })
    fresh.on('error', () => {})
    await new Promise<void>((resolve) => fresh.listen(port, '127.0.0.1', resolve))
    return fresh
  }
}

function keyOf(mail: string, header: string | null): string | null {
  return header === null ? null : (new RegExp(`^${header}:\\s*(\\S+)`, 'im').exec(mail)?.[1] ?? null)
}

function close(server: SMTPServer): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()))
}

function reply(responseCode: number, text: string): Error {
  return Object.assign(new Error(text), { responseCode })
}
