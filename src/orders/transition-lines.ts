import { isUtf8 } from 'node:buffer'
import { type Static, Type } from 'typebox'
import { Compile } from 'typebox/schema'
import { isTemporary } from '../db/failures.ts'
import { loggableError } from '../db/loggable-error.ts'
import { AppError } from '../errors.ts'
import { findExcess } from '../http/json-limits.ts'
import { invalidBody } from '../http/problem.ts'
import { isStorable } from '../http/storable-text.ts'
import { countCodePoints } from '../http/text-length.ts'
import { TimeSlice } from '../time-slice.ts'
import { traceIdOf } from '../traceparent.ts'
import { isWebAddress } from './events.ts'
import { EXAMPLE_TRANSITION } from './examples.ts'
import { type Move, type MoveOutcome, moveOrders, type TransitionContext } from './move-orders.ts'
import { type Actor, OrderStatusSchema } from './order.ts'
import { type OrderStatus, ruleOf } from './order-status.ts'
import { ReferenceSchema, type Tracking, TrackingSchema } from './tracking.ts'

export const MAX_TRANSITION_LINES = 10_000
const AT_ONCE = 200
/** Lock wait of the moves of one transaction. When it is over, each move runs alone. */
const CHUNK_LOCK_WAIT_MS = 500
/** Lock wait of a move that runs alone. A short lock does not refuse it. */
const LINE_LOCK_WAIT_MS = 100
/** Total lock wait of the moves that run alone in one chunk. It keeps a chunk of locked rows short. */
const LINES_LOCK_WAIT_MS = 2_000

export const Reason = Type.String({
  minLength: 1,
  maxLength: 500,
  description: 'The customer sees this text, and the data lake keeps it. Do not name a person.',
})

export const Transition = Type.Object(
  {
    to: OrderStatusSchema,
    reason: Type.Optional(Type.Union([Reason, Type.Null()])),
    reference: Type.Optional(
      Type.Union([ReferenceSchema, Type.Null()], {
        description: 'A transition with the same reference is made only once.',
      }),
    ),
    tracking: Type.Optional(Type.Union([TrackingSchema, Type.Null()])),
    restock: Type.Optional(Type.Boolean({ description: 'For `returned`: whether the goods can be sold again. By default they cannot.' })),
  },
  { title: 'Transition', examples: [EXAMPLE_TRANSITION], additionalProperties: false },
)

const TransitionLine = Type.Object(
  {
    order_id: Type.String({ format: 'uuid' }),
    ...Transition.properties,
    version: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 2_147_483_647, description: 'The transition is made only if this is the version of the order.' }),
    ),
  },
  { additionalProperties: false },
)
const isTransitionLine = Compile(countCodePoints(TransitionLine))

/** Lines count from 1. `repeated` means that an earlier request made the move and nothing changed. */
export type LineResult =
  | { line: number; order_id: string; ok: true; status: string; version: number; repeated?: true }
  | { line: number; order_id: string | null; ok: false; code: string; detail: string; [member: string]: unknown }

interface NumberedMove {
  line: number
  move: Move
}

export interface TransitionLinesRequest {
  id: string
  actor: Actor
  traceparent: string
  log: { error(entry: object, message: string): void }
}

/**
 * Up to 200 transitions share a transaction, in the given sequence. Each failed line has its reason. Throws
 * `invalid_body`.
 */
export async function moveOrdersByLines(
  context: TransitionContext,
  body: Buffer,
  request: TransitionLinesRequest,
  now: () => Date,
): Promise<LineResult[]> {
  const { actor, traceparent } = request
  const results: LineResult[] = []
  const moves: NumberedMove[] = []
  const unknownErrors: unknown[] = []
  const refuse = (line: number, orderId: string | null, error: unknown) => {
    if (!isKnown(error)) unknownErrors.push(error)
    return refusal(line, orderId, error, request.id)
  }
  for await (const { line, read } of splitBody(body)) {
    if (moves.length + results.length === MAX_TRANSITION_LINES) {
      throw new AppError('invalid_body', `The body can have at most ${MAX_TRANSITION_LINES} lines.`)
    }
    try {
      moves.push({ line, move: { ...toMove(read()), actor, traceparent } })
    } catch (error) {
      results.push(refuse(line, null, error))
    }
  }
  for (const chunk of inChunks(moves)) results.push(...(await moveChunk(context, chunk, now(), refuse)))
  if (unknownErrors.length > 0) {
    request.log.error(
      { trace_id: traceIdOf(traceparent), err: loggableError(unknownErrors[0]), code: 'internal', lines: unknownErrors.length },
      'lines of a bulk move failed',
    )
  }
  return results.sort((a, b) => a.line - b.line)
}

function toMove(value: unknown): Pick<Move, 'orderId' | 'versions'> & Required<Static<typeof Transition>> {
  if (!isTransitionLine.Check(value)) {
    const [, [error]] = isTransitionLine.Errors(value)
    throw new AppError('invalid_body', `${error?.instancePath || 'the line'} ${error?.message}`)
  }
  if (!isStorable(value)) throw new AppError('invalid_body', 'its texts must be well-formed Unicode without NUL')
  const { order_id, version, ...transition } = value as Static<typeof TransitionLine>
  const versions = version === undefined ? null : new Set([String(version)])
  return { orderId: order_id.toLowerCase(), ...readTransition(transition), versions }
}

/** Throws `invalid_body` for a member that this transition cannot have. */
export function readTransition(transition: Static<typeof Transition>): Required<Static<typeof Transition>> {
  const { to, reason = null, reference = null, tracking = null, restock = false } = transition
  assertRestock(to, restock)
  assertTracking(to, tracking)
  return { to, reason, reference, tracking, restock }
}

function assertRestock(to: OrderStatus, restock: boolean): void {
  if (restock && ruleOf(to).moves !== 'returned') throw invalidBody('#/restock', 'is for goods that are returned')
}

/** Each chunk names an order once, because each change needs a separate update to get its event. */
function* inChunks(moves: readonly NumberedMove[]): Generator<NumberedMove[]> {
  let chunk: NumberedMove[] = []
  let named = new Set<string>()
  for (const numbered of moves) {
    if (chunk.length === AT_ONCE || named.has(numbered.move.orderId)) {
      yield chunk
      chunk = []
      named = new Set()
    }
    chunk.push(numbered)
    named.add(numbered.move.orderId)
  }
  if (chunk.length > 0) yield chunk
}

async function moveChunk(
  context: TransitionContext,
  chunk: readonly NumberedMove[],
  now: Date,
  refuse: (line: number, orderId: string, error: unknown) => LineResult,
  lockWaitMs = CHUNK_LOCK_WAIT_MS,
): Promise<LineResult[]> {
  let outcomes: MoveOutcome[]
  try {
    outcomes = await moveOrders(
      context,
      chunk.map(({ move }) => move),
      now,
      lockWaitMs,
    )
  } catch (error) {
    const isOneAtFault = !isKnown(error) || (error instanceof AppError && error.code === 'unavailable')
    if (chunk.length === 1 || !isOneAtFault) return chunk.map(({ line, move }) => refuse(line, move.orderId, error))
    // One order is at fault or locked. The chunk was rolled back, so each order can be moved alone.
    const results: LineResult[] = []
    const deadline = performance.now() + LINES_LOCK_WAIT_MS
    for (const numbered of chunk) {
      const lockWaitMs = Math.max(0, Math.min(LINE_LOCK_WAIT_MS, deadline - performance.now()))
      results.push(...(await moveChunk(context, [numbered], now, refuse, lockWaitMs)))
    }
    return results
  }
  return chunk.map(({ line, move }, index): LineResult => {
    const outcome = outcomes[index]
    if (outcome === undefined || outcome.kind === 'refused') return refuse(line, move.orderId, outcome?.error)
    const { status, version } = outcome.order
    return { line, order_id: move.orderId, ok: true, status, version, ...(outcome.kind === 'repeated' ? { repeated: true } : {}) }
  })
}

/** Whether the error is a refusal or temporary. Any other error is a bug. */
function isKnown(error: unknown): boolean {
  return error instanceof AppError || isTemporary(error)
}

function refusal(line: number, orderId: string | null, error: unknown, requestId: string): LineResult {
  const refused = { line, order_id: orderId, ok: false } as const
  if (error instanceof AppError) return { ...refused, code: error.code, detail: error.message, ...error.details.members }
  if (isKnown(error)) return { ...refused, code: 'unavailable', detail: 'This line could not be processed now. Send it again.' }
  const detail = 'Something went wrong on our side. The request id helps to find it.'
  return { ...refused, code: 'internal', detail, request_id: requestId }
}

export function assertTracking(to: OrderStatus, tracking: Tracking | null, pointer = '#/tracking'): void {
  if (tracking === null) return
  if (ruleOf(to).moves !== 'shipped') throw invalidBody(pointer, 'is for orders that are shipped')
  if (tracking.url !== undefined && !isWebAddress(tracking.url))
    throw invalidBody(`${pointer}/url`, 'must be an absolute http or https URL')
}

/** Exceeds a move with the longest reason and tracking when all characters are escaped. */
const MAX_LINE_BYTES = 32_768
/** A complete move has about ten values. Explaining a line with 2,900 unknown names takes 5 ms. */
const MAX_LINE_VALUES = 64
const LINE_FEED = 0x0a
// JSON white space (RFC 8259 §2) without the line feed.
const BLANKS = [0x20, 0x09, 0x0d]

/** Lines count from 1. `read` throws `invalid_body` or `malformed_json`. */
interface BodyLine {
  line: number
  read: () => unknown
}

/** The non-blank lines of NDJSON. Other requests run between them. */
async function* splitBody(body: Buffer): AsyncGenerator<BodyLine> {
  const slice = new TimeSlice()
  let line = 1
  for (let start = 0; start < body.length; line++) {
    const feed = body.indexOf(LINE_FEED, start)
    const end = feed === -1 ? body.length : feed
    const bytes = body.subarray(start, end)
    if (slice.isOver) await slice.next()
    if (bytes.length > MAX_LINE_BYTES || !bytes.every((byte) => BLANKS.includes(byte))) yield { line, read: () => parse(bytes) }
    start = end + 1
  }
}

function parse(bytes: Buffer): unknown {
  if (bytes.length > MAX_LINE_BYTES) throw new AppError('invalid_body', `A line can have at most ${MAX_LINE_BYTES} bytes.`)
  if (!isUtf8(bytes)) throw new AppError('malformed_json', 'The line is not valid UTF-8.')
  const excess = findExcess(bytes, MAX_LINE_VALUES)
  if (excess !== null) throw new AppError('invalid_body', `The line ${excess}.`)
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    throw new AppError('malformed_json', 'The line is not valid JSON.')
  }
}
