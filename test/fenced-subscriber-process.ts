import { createInterface } from 'node:readline'
import { pino } from 'pino'
import { createPool } from '../src/db/pool.ts'
import { inTransaction } from '../src/db/transaction.ts'
import { ORDERS } from '../src/topic/partitions.ts'
import { createPostgresTopic } from '../src/topic/postgres/postgres-topic.ts'

// Subscribes as each of the names, and writes into the table `effects` what it is given, after a line on standard
// input. `<name> waits` may wait before the transaction (name `outside`) or within it, behind the fence (name
// `inside`).
const [url = '', who = '', ...names] = process.argv.slice(2)
const pool = createPool({ url, size: 4, applicationName: 'effects', onError: () => {} })
const topic = createPostgresTopic(ORDERS, { pool, url, logger: pino({ level: 'silent' }) })
const lines = createInterface(process.stdin)
const told = new Promise((resolve) => lines.once('line', resolve))

for (const name of names) {
  const subscription = topic.subscribe(name, async (messages, _signal, fence) => {
    const wait = async () => {
      console.log(`${name} waits`)
      await told
    }
    try {
      if (name === 'outside') await wait()
      await inTransaction(pool, async (tx) => {
        await fence?.check(tx)
        if (name === 'inside') await wait()
        for (const { event } of messages)
          await tx.query('insert into effects (event_id, subscriber, writer) values ($1, $2, $3)', [event.id, name, who])
      })
      console.log(`${name} wrote`)
    } catch (error) {
      console.log(`${name} ${(error as Error).name}`)
      throw error
    }
  })
  await subscription.start()
}
