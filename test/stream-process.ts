import pg from 'pg'
import { pino } from 'pino'
import { catalogueSlotOf, orderSlotOf } from '../src/app/prepare-database.ts'
import { createCatalogueStreamHandler } from '../src/change-stream/catalogue-stream-handler.ts'
import { createOrderStreamHandler } from '../src/change-stream/order-stream-handler.ts'
import { createPool } from '../src/db/pool.ts'
import { CATALOGUE, ORDERS } from '../src/topic/partitions.ts'
import { createPostgresTopic } from '../src/topic/postgres/postgres-topic.ts'

// A change stream, which kills itself before it sends its statement of this number: node test/stream-process.ts
// DATABASE_URL PARTITION NUMBER. Writes a line when it has opened its slot.
const [url = '', partition = '', number = ''] = process.argv.slice(2)
const query = pg.Client.prototype.query as (...args: unknown[]) => unknown
let sent = 0
pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
  sent += 1
  if (sent === Number(number)) process.kill(process.pid, 'SIGKILL')
  return query.apply(this, args)
} as typeof pg.Client.prototype.query

const pool = createPool({ url, size: 2, applicationName: 'stream', onError: () => {} })
const logger = pino({ level: 'info' }, { write: (line) => /change stream is active/.test(line) && process.stdout.write('active\n') })
const common = { url, pool, logger }
await (partition === 'orders'
  ? createOrderStreamHandler({ ...common, slotName: orderSlotOf(url), topic: createPostgresTopic(ORDERS, common) })
  : createCatalogueStreamHandler({ ...common, slotName: catalogueSlotOf(url), topic: createPostgresTopic(CATALOGUE, common) })
).start()
