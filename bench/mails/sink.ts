// A mail server that accepts every mail and keeps none, on 127.0.0.1. Reports its port; to each message it answers with what it has accepted.

import { SMTPServer } from 'smtp-server'
import { freePort } from '../../test/free-port.ts'
import { nowMs } from '../pipeline/clock.ts'

export interface SinkReport {
  port: number
  mails: number
  bytes: number
  /** When the newest mail was accepted. */
  newestMs: number
}

const report: SinkReport = { port: await freePort(), mails: 0, bytes: 0, newestMs: 0 }

const server = new SMTPServer({
  authOptional: true,
  disableReverseLookup: true,
  disabledCommands: ['STARTTLS'],
  onData(stream, _session, callback) {
    stream.on('data', (chunk: Buffer) => {
      report.bytes += chunk.length
    })
    stream.on('end', () => {
      report.mails++
      report.newestMs = nowMs()
      callback()
    })
  },
})
server.on('error', () => {})
server.listen(report.port, '127.0.0.1')

process.on('message', () => process.send?.(report))
