// A process that offers a mix of requests to an HTTP server on loopback: by a closed loop, or at a rate that does not
// wait for answers.
import { connect, type Socket } from 'node:net'
import { type Measurement, summarise } from '../rig/measurement.ts'

export interface Kind {
  name: string
  /** The relative frequency of this kind. */
  weight: number
  /** Whole requests, ready to be sent. `{unique}` becomes a text that was never sent before. */
  requests: string[]
}

export interface Phase {
  seconds: number
  /** The requests a second. Null means that each connection sends its next request after the answer. */
  perSecond: number | null
}

export interface MixedLoad {
  port: number
  /** The most connections. A request that finds none free waits, and the wait counts. */
  connections: number
  kinds: Kind[]
  phases: Phase[]
  /** The longest wait for answers after the last phase, 15 s by default. */
  patienceMs?: number
}

export interface KindResult extends Measurement {
  name: string
  offered: number
  /** The number of answers by status, with `none` for requests without an answer. */
  statuses: Record<string, number>
  /** The time of each good answer. */
  goodMs: number[]
  /** The number of 503 refusals without Retry-After. */
  withoutRetryAfter: number
}

export interface PhaseResult {
  kinds: KindResult[]
  /**
   * One entry for each answer: the time in the phase at which it was due, how long it took, both in ms, and its status.
   */
  timeline: [number, number, number][]
}

interface Sent {
  kind: number
  phase: number
  dueAt: number
}

interface Line {
  socket: Socket
  sent: Sent | null
}

interface Answer extends Sent {
  status: string
  ms: number
  hasRetryAfter: boolean
}

const TICK_MS = 2
const PATIENCE_MS = 15_000
const LAST_CHUNK = Buffer.from('0\r\n\r\n')
const run = `${process.pid}-${Date.now()}`
let unique = 0

process.on('message', async (load: MixedLoad) => process.send?.(await offer(load)))

/** Returns the answers to the requests of each phase. */
async function offer({ port, connections, kinds, phases, patienceMs = PATIENCE_MS }: MixedLoad): Promise<PhaseResult[]> {
  const answers: Answer[] = []
  const free: Line[] = []
  const waiting: Sent[] = []
  const open = new Set<Line>()
  let outstanding = 0
  let onAnswer: (line: Line) => void = () => {}
  const totalWeight = kinds.reduce((sum, { weight }) => sum + weight, 0)
  const credits = kinds.map(() => 0)
  /** Chooses the kinds in turn, so even a few requests include every kind. */
  const choose = () => {
    for (const [index, { weight }] of kinds.entries()) credits[index] = (credits[index] ?? 0) + weight
    const chosen = credits.indexOf(Math.max(...credits))
    credits[chosen] = (credits[chosen] ?? 0) - totalWeight
    return chosen
  }
  const finish = (line: Line, status: string, hasRetryAfter: boolean) => {
    const { sent } = line
    if (sent === null) return
    line.sent = null
    outstanding -= 1
    answers.push({ ...sent, status, ms: performance.now() - sent.dueAt, hasRetryAfter })
  }
  const send = (line: Line, sent: Sent) => {
    const { requests } = kinds[sent.kind] as Kind
    const text = requests[Math.floor(Math.random() * requests.length)] ?? ''
    line.sent = sent
    line.socket.write(text.replace('{unique}', () => `${run}-${unique++}`))
  }
  const openLine = (): Line => {
    const line: Line = { socket: connect(port, '127.0.0.1').setNoDelay(true), sent: null }
    open.add(line)
    let held: Buffer = Buffer.alloc(0)
    let left = 0
    let isChunked = false
    let status = ''
    let hasRetryAfter = false
    let mustClose = false
    const done = () => {
      finish(line, status, hasRetryAfter)
      if (mustClose) line.socket.destroy()
      else onAnswer(line)
    }
    line.socket.on('data', (bytes: Buffer) => {
      if (isChunked) {
        held = Buffer.concat([held.subarray(-LAST_CHUNK.length), bytes])
        isChunked = !held.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK)
        if (isChunked) return
        held = Buffer.alloc(0)
        return done()
      }
      if (left > 0) {
        left -= bytes.length
        if (left <= 0) done()
        return
      }
      held = held.length === 0 ? bytes : Buffer.concat([held, bytes])
      const headEnd = held.indexOf('\r\n\r\n')
      if (headEnd < 0) return
      const head = held.toString('latin1', 0, headEnd)
      status = head.slice(9, 12)
      hasRetryAfter = /\r\nretry-after: \d+/i.test(head)
      mustClose = /\r\nconnection: close/i.test(head)
      isChunked = /\r\ntransfer-encoding: chunked/i.test(head) && !held.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK)
      if (isChunked) return
      left = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0) - (held.length - headEnd - 4)
      held = Buffer.alloc(0)
      if (left <= 0) done()
    })
    line.socket.on('error', () => {})
    line.socket.on('close', () => {
      open.delete(line)
      finish(line, 'none', false)
      onAnswer(line)
    })
    return line
  }
  const lineFor = (): Line | undefined => {
    let line = free.pop()
    while (line?.socket.destroyed) line = free.pop()
    return line ?? (open.size < connections ? openLine() : undefined)
  }
  const offered = phases.map(() => kinds.map(() => 0))
  const add = (phase: number, dueAt: number, line = lineFor()) => {
    const kind = choose()
    const row = offered[phase] as number[]
    row[kind] = (row[kind] ?? 0) + 1
    outstanding += 1
    const sent = { kind, phase, dueAt }
    if (line === undefined) waiting.push(sent)
    else send(line, sent)
  }
  const begins: number[] = []
  let next = 0
  for (const [phase, { seconds, perSecond }] of phases.entries()) {
    const beganAt = performance.now()
    const endsAt = beganAt + seconds * 1_000
    begins.push(beganAt)
    if (perSecond === null) {
      onAnswer = (line) => {
        if (performance.now() >= endsAt) free.push(line)
        else add(phase, performance.now(), line.socket.destroyed ? openLine() : line)
      }
      for (let i = 0; i < connections; i++) add(phase, performance.now())
    } else {
      onAnswer = (line) => {
        const isFree = !line.socket.destroyed
        const sent = waiting[next]
        if (sent === undefined) {
          if (isFree) free.push(line)
          return
        }
        next += 1
        send(isFree ? line : openLine(), sent)
      }
    }
    let made = 0
    while (performance.now() < endsAt) {
      await new Promise((resolve) => setTimeout(resolve, TICK_MS))
      const now = Math.min(performance.now(), endsAt)
      const due = perSecond === null ? 0 : Math.ceil(((now - beganAt) / 1_000) * perSecond)
      for (; made < due; made++) add(phase, beganAt + (made / (perSecond ?? 1)) * 1_000)
    }
  }
  const gaveUpAt = performance.now() + patienceMs
  while (outstanding > 0 && performance.now() < gaveUpAt) await new Promise((resolve) => setTimeout(resolve, 20))
  for (const { socket } of open) socket.destroy()
  return phases.map(({ seconds }, phase) => {
    const mine = answers.filter((answer) => answer.phase === phase)
    return {
      kinds: kinds.map(({ name }, kind) =>
        resultOf(
          name,
          offered[phase]?.[kind] ?? 0,
          seconds,
          mine.filter((answer) => answer.kind === kind),
        ),
      ),
      timeline: mine.map(({ dueAt, ms, status }) => [dueAt - (begins[phase] ?? 0), ms, Number(status)]),
    }
  })
}

function resultOf(name: string, offered: number, seconds: number, answers: readonly Answer[]): KindResult {
  const good = answers.filter(({ status }) => status.startsWith('2'))
  const statuses: Record<string, number> = {}
  for (const { status } of answers) statuses[status] = (statuses[status] ?? 0) + 1
  const unanswered = offered - answers.length
  if (unanswered > 0) statuses.none = (statuses.none ?? 0) + unanswered
  const goodMs = good.map(({ ms }) => ms)
  const measured = summarise(goodMs, seconds, offered - good.length)
  const withoutRetryAfter = answers.filter(({ status, hasRetryAfter }) => status === '503' && !hasRetryAfter).length
  return { ...measured, name, offered, statuses, goodMs, withoutRetryAfter }
}
