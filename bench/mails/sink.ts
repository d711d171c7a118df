// A mail server on 127.0.0.1 that accepts and discards every mail. Answers each message from its parent with the
// numbers so far.
import { SMTPServer } from 'smtp-server'
import { freePort } from '../../test/free-port.ts'
import { nowMs } from '../rig/clock.ts'

/** `isTraced` is true to keep the Message-ID of each mail from now on, and false to get the kept ones and stop. */
export interface SinkQuestion {
  isTraced?: boolean
}

export interface SinkReport {
  port: number
  mails: number
  bytes: number
  /** The time at which the newest mail was accepted, by `nowMs`. */
  newestMs: number
  /** The traced mails. Event ids are the local parts of Message-IDs. */
  traced: { eventId: string; acceptedMs: number }[]
}

const report: SinkReport = { port: await freePort(), mails: 0, bytes: 0, newestMs: 0, traced: [] }
let isTraced = false

const server = new SMTPServer({
  authOptional: true,
  disableReverseLookup: true,
  disabledCommands: ['STARTTLS'],
  onData(stream, _session, callback) {
    let head = ''
    stream.on('data', (chunk: Buffer) => {
      report.bytes += chunk.length
      if (isTraced) head += chunk.toString('latin1')
    })
    stream.on('end', () => {
      report.mails++
      report.newestMs = nowMs()
      const [, eventId] = (isTraced && /^message-id:\s*<([^@>]+)@/im.exec(head)) || []
      if (eventId !== undefined) report.traced.push({ eventId, acceptedMs: report.newestMs })
      callback()
    })
  },
})
server.on('error', () => {})
server.listen(report.port, '127.0.0.1')

process.on('message', (question: SinkQuestion) => {
  process.send?.(question.isTraced === false ? report : { ...report, traced: [] })
  if (question.isTraced === undefined) return
  isTraced = question.isTraced
  report.traced = []
})
