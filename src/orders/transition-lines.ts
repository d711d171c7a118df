import { type Static, Type } from 'typebox'
import { Compile } from 'typebox/compile'
import type { Pool } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { type Move, type MoveOutcome, moveOrders } from './move-orders.ts'
import type { Actor } from './order.ts'
import { OrderStatusSchema } from './order.ts'

export const MAX_TRANSITION_LINES = 10_000
const AT_ONCE = 200

const Reason = Type.String({ minLength: 1, maxLength: 500 })

export const Transition = Type.Object(
  {
    to: OrderStatusSchema,
    reason: Type.Optional(Type.Union([Reason, Type.Null()])),
    restock: Type.Optional(Type.Boolean({ description: 'With `returned`: the goods can be sold again. Default: they cannot.' })),
  },
  { additionalProperties: false },
)

const TransitionLine = Type.Object(
  {
    order_id: Type.String({ format: 'uuid' }),
    ...Transition.properties,
    version: Type.Optional(Type.Integer({ minimum: 1, maximum: 2_147_483_647, description: 'Only if this is the version of the order.' })),
  },
  { additionalProperties: false },
)
const isTransitionLine = Compile(TransitionLine)

/** What became of a line of a bulk transition. Lines are counted from 1. */
export type LineResult =
  | { line: number; order_id: string; ok: true; status: string; version: number }
  | { line: number; order_id: string | null; ok: false; code: string; detail: string; [member: string]: unknown }

interface NumberedMove {
  line: number
  move: Move
}

/**
 * Moves the order of each line of NDJSON, in the order of the lines, some at a time in one transaction. A line that cannot be done says
 * why and holds up no other. Throws `invalid_body` when there are too many.
 */
export async function moveOrdersByLines(
  pool: Pool,
  text: string,
  actor: Actor,
  traceparent: string,
  now: () => Date,
): Promise<LineResult[]> {
  const lines = text.split('\n').map((line) => line.trim())
  if (lines.filter((line) => line !== '').length > MAX_TRANSITION_LINES) {
    throw new AppError('invalid_body', `A body has at most ${MAX_TRANSITION_LINES} lines.`)
  }
  const results: LineResult[] = []
  const moves: NumberedMove[] = []
  for (const [index, line] of lines.entries()) {
    if (line === '') continue
    try {
      moves.push({ line: index + 1, move: { ...readLine(line), actor, traceparent } })
    } catch (error) {
      results.push(refusal(index + 1, null, error))
    }
  }
  for (const chunk of inChunks(moves)) results.push(...(await moveChunk(pool, chunk, now())))
  return results.sort((a, b) => a.line - b.line)
}

function readLine(line: string): Pick<Move, 'orderId' | 'to' | 'reason'> & Partial<Move> {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    throw new AppError('malformed_json', 'The line is not valid JSON.')
  }
  if (!isTransitionLine.Check(value)) {
    const [error] = isTransitionLine.Errors(value)
    throw new AppError('invalid_body', `${error?.instancePath || 'the line'} ${error?.message}`)
  }
  const { order_id, to, reason = null, version, restock = false } = value as Static<typeof TransitionLine>
  if (reason !== null && (!reason.isWellFormed() || reason.includes('\0')))
    throw new AppError('invalid_body', '/reason must be well-formed')
  assertRestock(to, restock)
  return { orderId: order_id.toLowerCase(), to, reason, restock, versions: version === undefined ? null : new Set([String(version)]) }
}

/** Throws `invalid_body` when goods are to be put back that do not come back. */
export function assertRestock(to: string, restock: boolean): void {
  if (!restock || to === 'returned') return
  throw new AppError('invalid_body', 'The body is not acceptable.', {
    errors: [{ pointer: '#/restock', detail: 'is for goods that are returned' }],
  })
}

/** Runs of moves that name no order twice: each change of an order is an update, and so an event, of its own. */
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

async function moveChunk(pool: Pool, chunk: readonly NumberedMove[], now: Date): Promise<LineResult[]> {
  const moves = chunk.map(({ move }) => move)
  const outcomes = await moveOrders(pool, moves, now).catch((error): MoveOutcome[] => moves.map(() => ({ kind: 'refused', error })))
  return chunk.map(({ line, move }, index): LineResult => {
    const outcome = outcomes[index]
    if (outcome?.kind !== 'moved') return refusal(line, move.orderId, outcome?.error)
    return { line, order_id: move.orderId, ok: true, status: outcome.order.status, version: outcome.order.version }
  })
}

function refusal(line: number, orderId: string | null, error: unknown): LineResult {
  if (!(error instanceof AppError)) {
    return { line, order_id: orderId, ok: false, code: 'unavailable', detail: 'The line could not be done now. Send it again.' }
  }
  return { line, order_id: orderId, ok: false, code: error.code, detail: error.message, ...error.details.members }
}
