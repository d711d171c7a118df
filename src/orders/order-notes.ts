import { randomUUIDv7 } from 'node:crypto'
import { type Static, Type } from 'typebox'
import { type AuditContext, recordActivity } from '../activity/record-activity.ts'
import type { Pool, Queryable } from '../db/pool.ts'
import { noSql, sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError, notFound } from '../errors.ts'
import type { IdPosition, Page, Paging } from '../http/pagination.ts'
import { EXAMPLE_NEW_ORDER_NOTE, EXAMPLE_ORDER_NOTE } from './examples.ts'

export const NewOrderNote = Type.Object(
  {
    text: Type.String({
      minLength: 1,
      maxLength: 2_000,
      pattern: '\\S',
      'x-must': 'have a visible character',
      description: 'Plain text. Customers never see it.',
    }),
  },
  { title: 'NewOrderNote', additionalProperties: false, examples: [EXAMPLE_NEW_ORDER_NOTE] },
)

export const OrderNoteSchema = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    author: Type.Object({
      type: Type.Enum(['admin', 'key', 'system'], { description: '`admin`: an operator of any role. `key`: an API key.' }),
      id: Type.Union([Type.String(), Type.Null()]),
    }),
    text: Type.String(),
    created_at: Type.String({ format: 'date-time' }),
  },
  { title: 'OrderNote', examples: [EXAMPLE_ORDER_NOTE] },
)
export type OrderNote = Static<typeof OrderNoteSchema>

interface NoteRow {
  id: string
  author_type: OrderNote['author']['type']
  author_id: string | null
  text: string
  created_at: Date
}

const COLUMNS = sql`id, author_type, author_id, text, created_at`

function toNote({ id, author_type: type, author_id, text, created_at }: NoteRow): OrderNote {
  return { id, author: { type, id: author_id }, text, created_at: created_at.toISOString() }
}

/** Throws `not_found`, or `order_erased` when the note could never be erased. */
export async function addOrderNote(pool: Pool, orderId: string, text: string, auditContext: AuditContext): Promise<OrderNote> {
  return inTransaction(pool, async (tx) => {
    await assertErasable(tx, orderId)
    const { actor } = auditContext
    const { rows } = await tx.query<NoteRow>(
      sql`insert into order_notes (id, order_id, author_type, author_id, text)
        values (${randomUUIDv7()}, ${orderId}, ${actor.type}, ${actor.id}, ${text})
        returning ${COLUMNS}`,
    )
    const note = toNote(rows[0] as NoteRow)
    // The text may be about a person, and activities are never erased.
    await recordActivity(tx, auditContext, { subjectType: 'order', subjectId: orderId, before: null, after: { note_id: note.id } })
    return note
  })
}

/**
 * Locks a deleted account and makes its erasure due at once. Throws `order_erased` when new data would never be erased.
 */
export async function assertErasable(tx: Queryable, orderId: string): Promise<void> {
  const { rows } = await tx.query<{ user_id: string; has_account: boolean }>(
    sql`select user_id, exists (select from users where users.id = orders.user_id) as has_account from orders where id = ${orderId}`,
  )
  const order = rows[0]
  if (order === undefined) throw notFound('order')
  if (order.has_account) return
  const { rowCount } = await tx.query(sql`update deleted_accounts set oldest_change_at = '-infinity' where user_id = ${order.user_id}`)
  if (rowCount === 0)
    throw new AppError('order_erased', 'The account of this order was deleted and its personal data were erased, so none can be added.')
}

/** Newest first. Throws `not_found`. */
export async function listOrderNotes(
  pool: Pool,
  orderId: string,
  { limit, after, page }: Paging<Static<typeof IdPosition>>,
): Promise<Page<OrderNote>> {
  const before = after === undefined ? noSql : sql`and id < ${after[0]}::uuid`
  const { rows } = await pool.query<NoteRow>(
    sql`select ${COLUMNS} from order_notes where order_id = ${orderId} ${before} order by id desc limit ${limit + 1}`,
  )
  if (rows.length === 0) await assertExists(pool, orderId)
  return page(rows, toNote, ({ id }) => [id])
}

async function assertExists(pool: Pool, orderId: string): Promise<void> {
  const { rowCount } = await pool.query(sql`select from orders where id = ${orderId}`)
  if (rowCount === 0) throw notFound('order')
}
