// A process that loads an HTTP server over keep-alive connections on loopback, one request at a time on each: a closed loop.
import { connect } from 'node:net'
import { type Measurement, summarise } from './measurement.ts'

export interface HttpLoad {
  port: number
  warmUpSeconds: number
  seconds: number
  status: number
  /** For each connection its requests, sent round and round, whole and ready; `{unique}` in a head becomes a text never sent before. */
  connections: { head: string; bodies: string[] }[]
}

const UNIQUE = '{unique}'
const run = `${process.pid}-${Date.now()}`
let sent = 0

process.on('message', async (load: HttpLoad) => {
  const measureFrom = performance.now() + load.warmUpSeconds * 1_000
  const end = measureFrom + load.seconds * 1_000
  const results = await Promise.all(load.connections.map((connection) => drive(load, connection, measureFrom, end)))
  const latencies = results.flatMap((result) => result.latencies)
  const failures = results.reduce((sum, result) => sum + result.failures, 0)
  process.send?.(summarise(latencies, load.seconds, failures) satisfies Measurement)
})

function drive({ port, status }: HttpLoad, { head, bodies }: HttpLoad['connections'][number], measureFrom: number, end: number) {
  const [before = '', after] = head.split(UNIQUE)
  const heads = bodies.map((body) => `${body === '' ? '' : `content-length: ${Buffer.byteLength(body)}\r\n`}\r\n${body}`)
  const good = Buffer.from(`HTTP/1.1 ${status} `)
  const latencies: number[] = []
  let failures = 0
  let index = 0
  let began = 0
  let left = -1
  const done = Promise.withResolvers<{ latencies: number[]; failures: number }>()
  const socket = connect(port, '127.0.0.1')
  socket.setNoDelay(true)
  const send = () => {
    const middle = after === undefined ? before : `${before}${run}-${sent++}${after}`
    const tail = heads[index++ % heads.length]
    began = performance.now()
    socket.write(`${middle}${tail}`)
  }
  const finish = () => {
    const now = performance.now()
    if (now >= measureFrom && now < end) latencies.push(now - began)
    if (now >= end) {
      socket.end()
      done.resolve({ latencies, failures })
    } else send()
  }
  let held: Buffer = Buffer.alloc(0)
  socket.on('connect', send)
  socket.on('error', done.reject)
  socket.on('data', (bytes: Buffer) => {
    if (left > 0) {
      left -= bytes.length
      if (left === 0) finish()
      return
    }
    held = held.length === 0 ? bytes : Buffer.concat([held, bytes])
    const headEnd = held.indexOf('\r\n\r\n')
    if (headEnd < 0) return
    const text = held.toString('latin1', 0, headEnd)
    if (held.compare(good, 0, good.length, 0, good.length) !== 0) {
      failures += 1
      if (failures === 1) console.error(held.toString().slice(0, 600))
    }
    left = Number(/\r\ncontent-length: (\d+)/i.exec(text)?.[1]) - (held.length - headEnd - 4)
    held = Buffer.alloc(0)
    if (left === 0) finish()
  })
  return done.promise
}
