// A mail server that accepts every mail and keeps none, on 127.0.0.1. Answers each message with what it has accepted.
import { SMTPServer } from 'smtp-server'
import { freePort } from '../../test/free-port.ts'
import { nowMs } from '../rig/clock.ts'

/** `isTraced`: true to keep the Message-ID of each mail from now on, false to get those and keep no more. */
export interface SinkQuestion {
  isTraced?: boolean
}

export interface SinkReport {
  port: number
  mails: number
  bytes: number
  /** When the newest mail was accepted, by `nowMs`. */
  newestMs: number
  /** Local parts of the Message-IDs of the traced mails: ids of events. */
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
