import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { describe, test } from 'node:test'
import { type DebianPostgres, debianPostgresMissing, startDebianPostgres } from '../../../test/debian-postgres.ts'
import { eventually } from '../../../test/eventually.ts'
import { NO_NATS, startNatsServer } from '../../../test/nats-server.ts'
import { readCommands, readRoleStatements } from '../../../test/operations-commands.ts'
import { createRestorableStore, type PlacedOrder, readLakeRows } from '../../../test/restorable-store.ts'
import { TEST_SECRET } from '../../../test/store.ts'
import { runStorefront } from '../../../test/store-process.ts'

const STEPS = {
  dump: readCommands('*A dump* is made while the store runs:'),
  restoreDump: readCommands('A new server needs the roles first (`pg_dumpall --roles-only`):'),
  archive: readCommands('before the base backup:'),
  baseBackup: readCommands('*A base backup* copies the whole server while the store runs:'),
  restoreBaseBackup: readCommands('These commands restore it to the moment of the backup:'),
  restorePoint: readCommands('These commands restore to that point:'),
  afterwards: readCommands('and the three addresses of the database:'),
}

/** A way to back up and restore, with the commands of docs/operate/backup.md. */
interface Way {
  name: string
  backUp: string
  restore: string
  /** Prints the restore target as a line of the configuration. */
  target?: string
}

const toPoint = (name: string, target: string): Way => ({
  name: `point in time by its ${name}`,
  backUp: `${STEPS.archive}${STEPS.baseBackup}`,
  restore: STEPS.restorePoint,
  target,
})
const DUMP: Way = { name: 'dump', backUp: STEPS.dump, restore: STEPS.restoreDump }
const BASE_BACKUP: Way = { name: 'base backup', backUp: STEPS.baseBackup, restore: STEPS.restoreBaseBackup }
const TO_TIME = toPoint('time', `select format('recovery_target_time = %L', clock_timestamp())`)
const TO_TRANSACTION = toPoint('transaction', `select format('recovery_target_xid = %L', pg_current_xact_id())`)
const TO_NAME = toPoint(
  'name',
  `select format('recovery_target_name = %L', 'before the import') from pg_create_restore_point('before the import')`,
)

// Each way once, and a copy and a point in time with each topic: a way does not depend on where the topic is.
const topics = [
  { where: 'PostgreSQL', skip: debianPostgresMissing, ways: [DUMP, TO_TIME, TO_NAME], open: async () => ({}) },
  {
    where: 'NATS',
    skip: debianPostgresMissing || NO_NATS,
    ways: [BASE_BACKUP, TO_TRANSACTION],
    open: async (t: Parameters<typeof startNatsServer>[0]) => ({ NATS_URL: (await startNatsServer(t)).url }),
  },
]

// Concurrent, because most of the time is waiting.
describe("the documented restores of a PostgreSQL of one's own", { concurrency: true }, () => {
  for (const { where, skip, ways, open } of topics) {
    test(`restores leave orders, topic, mails and lake in agreement, one after the other, with the topic in ${where}`, {
      skip,
    }, async (t) => {
      const settings = { fsync: 'off', wal_level: 'logical', archive_mode: 'on' }
      const server = await startDebianPostgres(t, settings)
      await server.run(`psql "$ADMIN/postgres" -v ON_ERROR_STOP=1 <<'SQL'\n${readRoleStatements().join(';\n')};\nSQL`, adminOf(server))
      const addressOf = (role: string) => Object.assign(new URL(server.address), { username: role, pathname: '/shop' }).href
      const store = createRestorableStore(t, {
        DATABASE_OWNER_URL: addressOf('shop_owner'),
        DATABASE_URL: addressOf('shop_api'),
        DATABASE_STREAM_URL: addressOf('shop_stream'),
        STOREFRONT_SECRET: TEST_SECRET,
        ...(await open(t)),
      })
      /** Runs the documented commands after a restore. Returns the output of the last one. */
      const bringIntoAgreement = async () => {
        let printed = ''
        for (const line of STEPS.afterwards.trim().split('\n')) {
          const [, ...args] = line.split(' ')
          const { status, stdout, stderr } = await runStorefront(t, args, { env: store.environment })
          assert.equal(status, 0, stderr)
          printed = stdout
        }
        return printed
      }
      await bringIntoAgreement()

      let running = await store.start()
      const numbers: number[] = []
      let lostEvents = 0
      for (const way of ways) {
        await t.test(way.name, async () => {
          const variables = { ...adminOf(server), BACKUP: server.makeFolder() }
          // Delivered before the backup: a mail in flight at that moment is retried half a minute after the restore.
          const kept = [await running.place(), await running.place()]
          const [changed] = kept
          assert.ok(changed)
          const { target: moment } = way
          if (moment === undefined) await running.untilDelivered()
          await server.run(way.backUp, variables)
          let target = ''
          if (moment !== undefined) {
            // The log restores orders that were placed after the base backup.
            kept.push(await running.place())
            await running.untilDelivered()
            target = await server.run(`psql "$ADMIN/postgres" -Atc "${moment}"`, variables)
          }
          const lost = [await running.place(), await running.place()]
          assert.equal(await running.cancel(changed), 2)
          await running.untilDelivered()
          lostEvents += 3
          await running.stop()

          await server.run(way.restore, { ...variables, TARGET: target })
          rmSync(`${server.cluster}.replaced`, { recursive: true, force: true })
          const printed = await bringIntoAgreement()
          for (const { id, number } of lost) assert.match(printed, new RegExp(`order ${number} is lost: .*${id}`))
          assert.match(printed, new RegExp(`order ${changed.id} has lost changes`))

          running = await store.start()
          await eventually(async () => (await running.failing()).length === 0, { what: 'a store whose stream has a slot' })
          const { rows } = await running.pool.query<{ id: string }>('select id from orders')
          const present = new Set(rows.map(({ id }) => id))
          assert.ok(kept.every(({ id }) => present.has(id)) && !lost.some(({ id }) => present.has(id)))
          const fresh = [await running.place(), await running.place()]
          assert.ok(Math.min(...numbersOf(fresh)) > Math.max(...numbersOf(lost)))
          assert.ok((await running.cancel(changed)) > 1_000)
          await running.untilDelivered()

          numbers.push(...numbersOf([...kept, ...lost, ...fresh]))
          assert.equal(new Set(numbers).size, numbers.length)
          const lakeRows = await readLakeRows(store.dataDir)
          for (const key of ['eventId', 'sequence'] as const)
            assert.equal(new Set(lakeRows.map((fact) => fact[key])).size, lakeRows.length, key)
          const { rows: mails } = await running.pool.query<{ event_id: string }>(
            `select event_id from email_deliveries where status = 'sent'`,
          )
          const mailed = new Set(mails.map(({ event_id }) => event_id))
          for (const { id } of fresh) {
            assert.ok(lakeRows.some(({ eventId }) => eventId === `${id}.1`))
            assert.ok(mailed.has(`${id}.1`))
          }
          const report = await running.verify()
          assert.deepEqual([report.findings, report.undecided], [[], []])
          assert.equal(report.lake.lostEvents, lostEvents)
        })
      }
      await running.stop()
    })
  }
})

function adminOf({ address }: DebianPostgres): { ADMIN: string } {
  return { ADMIN: address }
}

function numbersOf(orders: readonly PlacedOrder[]): number[] {
  return orders.map(({ number }) => number)
}
