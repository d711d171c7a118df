import pg from 'pg'
import { pino } from 'pino'
import { orderSlotOf } from '../src/app/prepare-database.ts'
import { replay } from '../src/audit/replay/replay.ts'
import { createPool } from '../src/db/pool.ts'
import { ORDERS } from '../src/topic/partitions.ts'
import { createPostgresTopic } from '../src/topic/postgres/postgres-topic.ts'

// `storefront replay`, which kills itself before it sends its statement of this number: node test/replay-process.ts DATABASE_URL NUMBER
const [url = '', number = ''] = process.argv.slice(2)
const query = pg.Client.prototype.query as (...args: unknown[]) => unknown
let sent = 0
pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
  sent += 1
  if (sent === Number(number)) process.kill(process.pid, 'SIGKILL')
  return query.apply(this, args)
} as typeof pg.Client.prototype.query

const pool = createPool({ url, size: 2, applicationName: 'replay', onError: () => {} })
const topic = createPostgresTopic(ORDERS, { pool, url, logger: pino({ level: 'silent' }) })
await replay({ pool, streamUrl: url, topic, slotName: orderSlotOf(url) })
await pool.end()
console.log(sent)
