// A process that loads an HTTP server over keep-alive connections on loopback, one request at a time on each. It uses
// plain sockets, because a full HTTP client would be slower than the servers.
import { connect } from 'node:net'
import { nowMs } from './clock.ts'
import { type Measurement, summarise } from './measurement.ts'

export interface HttpLoad {
  port: number
  warmUpSeconds: number
  seconds: number
  status: number
  /**
   * The requests that become due in a second, even while earlier ones are unanswered: an open loop. Latency then counts
   * from the moment at which a request was due. Without a rate, the loop is closed: each connection sends its next
   * request after an answer.
   */
  perSecond?: number
  /** Whether to return each answered request too. */
  isTraced?: boolean
  /**
   * The requests of each connection, whole and ready, sent repeatedly. `{number}` in a head becomes a number that was
   * never sent before.
   */
  connections: { head: string; bodies: string[] }[]
}

/** An answered request: the time at which it was due, by `nowMs`, and its answer's header `location`. */
export interface TracedRequest {
  dueMs: number
  location: string
}

export type LoadResult = Measurement & { trace: TracedRequest[] }

const NUMBER = '{number}'
let number = Date.now() * 1_000

process.on('message', async (load: HttpLoad) => {
  const beganMs = nowMs()
  const measureFrom = beganMs + load.warmUpSeconds * 1_000
  const endMs = measureFrom + load.seconds * 1_000
  const latencies: number[] = []
  const trace: TracedRequest[] = []
  let failures = 0
  const connections = load.connections.map(
    (connection) =>
      new Connection(load, connection, ({ dueMs, isExpected, location }) => {
        const now = nowMs()
        if (!isExpected) failures += 1
        // A closed loop counts the answers within the time, and an open one the requests due within it.
        const at = load.perSecond === undefined ? now : dueMs
        if (at < measureFrom || at >= endMs) return
        latencies.push(now - dueMs)
        if (load.isTraced) trace.push({ dueMs, location })
      }),
  )
  await Promise.all(connections.map((connection) => connection.connected))
  if (load.perSecond === undefined) await Promise.all(connections.map((connection) => sendUntil(connection, endMs)))
  else await sendAtRate(connections, load.perSecond, nowMs(), endMs)
  for (const connection of connections) connection.close()
  process.send?.({ ...summarise(latencies, load.seconds, failures), trace } satisfies LoadResult)
})

async function sendUntil(connection: Connection, endMs: number): Promise<void> {
  while (nowMs() < endMs) await connection.send(nowMs())
}

/** Sends each due request on a free connection, or on the first one that becomes free. */
async function sendAtRate(connections: readonly Connection[], perSecond: number, beganMs: number, endMs: number): Promise<void> {
  const free = [...connections]
  const waiting: number[] = []
  const work = new Set<Promise<void>>()
  const send = (connection: Connection, dueMs: number) => {
    const sent: Promise<void> = connection.send(dueMs).then(() => {
      work.delete(sent)
      const next = waiting.shift()
      if (next === undefined) free.push(connection)
      else send(connection, next)
    })
    work.add(sent)
  }
  for (let due = 0; ; ) {
    const now = nowMs()
    for (; beganMs + (due / perSecond) * 1_000 <= Math.min(now, endMs); due++) {
      const connection = free.shift()
      const dueMs = beganMs + (due / perSecond) * 1_000
      if (connection === undefined) waiting.push(dueMs)
      else send(connection, dueMs)
    }
    if (now >= endMs) break
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  while (work.size > 0) await Promise.race(work)
}

type OnAnswer = (answer: { dueMs: number; isExpected: boolean; location: string }) => void

let areFailuresShown = false

class Connection {
  readonly connected: Promise<void>
  readonly #socket
  readonly #head: string[]
  readonly #tails: string[]
  #sent = 0
  #answered: PromiseWithResolvers<void> | null = null
  #dueMs = 0

  constructor({ port, status }: HttpLoad, { head, bodies }: HttpLoad['connections'][number], onAnswer: OnAnswer) {
    this.#head = head.split(NUMBER)
    this.#tails = bodies.map((body) => `${body === '' ? '' : `content-length: ${Buffer.byteLength(body)}\r\n`}\r\n${body}`)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.connected = promise
    const fail = (error: Error) => {
      reject(error)
      this.#answered?.reject(error)
    }
    this.#socket = connect(port, '127.0.0.1').setNoDelay(true).on('connect', resolve).on('error', fail)
    this.#socket.on('close', () => fail(new Error('the server closed a connection')))
    const good = Buffer.from(`HTTP/1.1 ${status} `)
    let held: Buffer = Buffer.alloc(0)
    let left = 0
    let isExpected = true
    let location = ''
    this.#socket.on('data', (bytes: Buffer) => {
      if (left > 0) left -= bytes.length
      else {
        held = held.length === 0 ? bytes : Buffer.concat([held, bytes])
        const headEnd = held.indexOf('\r\n\r\n')
        if (headEnd < 0) return
        const text = held.toString('latin1', 0, headEnd)
        isExpected = held.compare(good, 0, good.length, 0, good.length) === 0
        if (!isExpected && !areFailuresShown) {
          console.error(held.toString().slice(0, 600))
          areFailuresShown = true
        }
        location = status === 201 ? (/\r\nlocation: (\S+)/i.exec(text)?.[1] ?? '') : ''
        left = Number(/\r\ncontent-length: (\d+)/i.exec(text)?.[1] ?? 0) - (held.length - headEnd - 4)
        held = Buffer.alloc(0)
      }
      if (left !== 0) return
      onAnswer({ dueMs: this.#dueMs, isExpected, location })
      this.#answered?.resolve()
    })
  }

  /** Sends a request. Returns once it is answered. */
  send(dueMs: number): Promise<void> {
    this.#dueMs = dueMs
    this.#answered = Promise.withResolvers()
    const head = this.#head.length === 1 ? this.#head[0] : this.#head.join(String(number++))
    this.#socket.write(`${head}${this.#tails[this.#sent++ % this.#tails.length]}`)
    return this.#answered.promise
  }

  close(): void {
    this.#answered = null
    this.#socket.removeAllListeners('close').destroy()
  }
}
