import { commaList, literal, sql } from '../db/sql.ts'
import { statusesWhere } from './order-status.ts'

const OPEN = commaList(statusesWhere(({ phase }) => phase === 'open').map(literal))

/** The condition of the index `orders_unpaid_number_idx`, which PostgreSQL would not use for parameters. */
export const IS_UNPAID = sql`status in (${OPEN}) and (status_history -> 1 is null or not order_holds_money(status_history))`
