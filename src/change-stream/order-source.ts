import { type OrderRecord, RECORD_COLUMNS } from '../orders/events.ts'
import { PUBLICATION } from './replication-slot.ts'
import type { StreamSource } from './slot-reader.ts'

export const ORDER_SOURCE: StreamSource<OrderRecord, 'status' | 'version'> = {
  publication: PUBLICATION,
  shape: { table: 'orders', columns: RECORD_COLUMNS, previousColumns: ['status', 'version'] },
}
