import { createServer, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { type Cleanup, onCleanup } from './cleanup.ts'

/** A step of an SMTP conversation; `body` is the answer to the whole message. */
export type SmtpStep = 'greeting' | 'EHLO' | 'HELO' | 'AUTH' | 'MAIL' | 'RCPT' | 'DATA' | 'body'
/** A reply such as `550 5.1.1 no`, `cut` to close the connection without one, or a promise of either. */
export type SmtpAnswer = string | Promise<string>

export interface ScriptedSmtpServer {
  readonly url: string
  readonly port: number
  /** The `Message-ID` of each message that was received completely, whatever the reply. */
  readonly messageIds: string[]
  /** Sets the reply of the step for the next time only. */
  answerOnce(step: SmtpStep, answer: SmtpAnswer): void
  /** Sets the reply of the step from now on. */
  answer(step: SmtpStep, answer: SmtpAnswer): void
  /** Resolves when a message was received completely, before the reply. */
  nextBody(): Promise<void>
}

const REPLIES: Record<SmtpStep, string> = {
  greeting: '220 ready',
  EHLO: '250-hello\r\n250 AUTH PLAIN',
  HELO: '250 hello',
  AUTH: '235 2.7.0 welcome',
  MAIL: '250 2.1.0 fine',
  RCPT: '250 2.1.5 fine',
  DATA: '354 continue',
  body: '250 2.0.0 taken',
}

/** An SMTP server (RFC 5321) whose replies a test chooses step by step, which `smtp-server` cannot do. */
export async function startScriptedSmtpServer(t: Cleanup): Promise<ScriptedSmtpServer> {
  const always = new Map<SmtpStep, SmtpAnswer>(Object.entries(REPLIES) as [SmtpStep, string][])
  const once = new Map<SmtpStep, SmtpAnswer>()
  const sockets = new Set<Socket>()
  const messageIds: string[] = []
  let body = Promise.withResolvers<void>()

  async function reply(socket: Socket, step: SmtpStep): Promise<boolean> {
    const next = once.get(step) ?? always.get(step)
    once.delete(step)
    const answer = await next
    if (answer === 'cut' || answer === undefined) socket.destroy()
    else socket.write(`${answer}\r\n`)
    return answer === '354 continue'
  }

  async function converse(socket: Socket): Promise<void> {
    await reply(socket, 'greeting')
    let message: string[] | null = null
    for await (const line of createInterface(socket)) {
      if (message === null) {
        const step = line.slice(0, 4).toUpperCase() as SmtpStep
        if (await reply(socket, step)) message = []
      } else if (line === '.') {
        messageIds.push(/^Message-ID: *(\S+)/im.exec(message.join('\n'))?.[1] ?? '')
        message = null
        body.resolve()
        body = Promise.withResolvers()
        await reply(socket, 'body')
      } else {
        message.push(line)
      }
    }
  }

  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    converse(socket).catch(() => {})
  })
  const { promise, resolve } = Promise.withResolvers<void>()
  server.listen(0, '127.0.0.1', resolve)
  await promise
  onCleanup(t, () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as { port: number }
  return {
    port,
    url: `smtp://user:password@127.0.0.1:${port}`,
    messageIds,
    answerOnce: (step, answer) => void once.set(step, answer),
    answer: (step, answer) => void always.set(step, answer),
    nextBody: () => body.promise,
  }
}
