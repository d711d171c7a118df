import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { type Cleanup, onCleanup } from '../../test/cleanup.ts'
import { connectTo } from '../../test/database.ts'
import { debianPostgresMissing } from '../../test/debian-postgres.ts'
import { eventually } from '../../test/eventually.ts'
import { startOwnServer } from '../../test/own-server.ts'
import { createRestorableStore, type RestorableStore } from '../../test/restorable-store.ts'
import { launch, runStorefront } from '../../test/store-process.ts'

const SKIP = { skip: debianPostgresMissing }

const move = (t: Cleanup, store: RestorableStore, settings: Record<string, string>, args: string[]) =>
  runStorefront(t, ['database', 'move', ...args], { env: { ...store.environment, ...settings } })

test('a store that starts during a move cannot sell from the old database', SKIP, async (t) => {
  const [old, target] = [await startOwnServer(t), await startOwnServer(t)]
  const store = createRestorableStore(t, old.settings)
  const migrated = await runStorefront(t, ['migrate'], { env: store.environment })
  assert.equal(migrated.status, 0, migrated.stderr)
  const first = await store.start()
  await first.place()
  await first.untilDelivered()
  await first.stop()
  const [oldAdmin, targetAdmin] = [await connectTo(t, `${old.address}/postgres`), await connectTo(t, `${target.address}/postgres`)]
  await oldAdmin.query('alter database shop connection limit 70')
  const readLimit = async () => (await oldAdmin.query(`select datconnlimit from pg_database where datname = 'shop'`)).rows[0]?.datconnlimit
  const from = ['--from', old.settings.DATABASE_OWNER_URL]
  const refusal = (database: string, session: string) =>
    `storefront: ${database} is in use (${session}): stop every process of the store first; nothing was moved\n`

  // A session can have any name, so the move must not depend on names.
  const addresses = Object.entries(old.settings).filter(([name]) => name.startsWith('DATABASE_'))
  Object.assign(store.environment, Object.fromEntries(addresses.map(([name, url]) => [name, `${url}?application_name=hidden`])))
  const hidden = await store.start()
  const inUse = await move(t, store, target.settings, from)
  assert.deepEqual([inUse.status, inUse.stdout], [1, ''])
  assert.match(inUse.stderr, /^storefront: the database in --from is in use \([^)]*hidden[^)]*\): stop every process/)
  await hidden.stop()
  Object.assign(store.environment, old.settings)
  const user = await connectTo(t, `${target.address}/shop?application_name=user`)
  assert.equal((await move(t, store, target.settings, from)).stderr, refusal('the database in DATABASE_URL', 'user'))
  await user.end()
  assert.equal(await readLimit(), 70)

  const mover = launch(['database', 'move', ...from], { env: { ...store.environment, ...target.settings } })
  onCleanup(t, () => void mover.kill('SIGKILL'))
  let errors = ''
  mover.stderr?.setEncoding('utf8').on('data', (text) => {
    errors += text
  })
  const ended = once(mover, 'close')
  await eventually(
    async () => {
      const { rowCount } = await targetAdmin.query(
        `select from pg_stat_activity where datname = 'shop' and application_name = 'storefront-migrate'`,
      )
      return rowCount !== 0
    },
    { what: 'the preparation of the target' },
  )
  mover.kill('SIGSTOP')
  const started = await runStorefront(t, ['serve'], { env: store.environment })
  assert.equal(started.status, 1)
  assert.match(started.stderr, /too many connections for database "shop"/)
  // Connection limits do not apply to superusers.
  const superuser = await connectTo(t, `${old.address}/shop?application_name=late`)
  mover.kill('SIGCONT')
  assert.deepEqual([(await ended)[0], errors], [1, refusal('the database in --from', 'late')])
  assert.equal(await readLimit(), 70, 'a move that fails leaves the old database as it was')
  await superuser.end()
  const copy = await connectTo(t, `${target.address}/shop`)
  assert.equal((await copy.query('select from orders')).rowCount, 0)
  await copy.end()

  const { status, stdout, stderr } = await move(t, store, target.settings, from)
  assert.deepEqual([status, stderr], [0, ''], stdout)
  assert.match(stdout, /run "alter database shop connection limit 70" to go back to it/)
  assert.equal(await readLimit(), 0)
  const interrupted = await move(t, store, target.settings, from)
  assert.equal(interrupted.status, 1)
  assert.match(
    interrupted.stderr,
    /^storefront: the database in --from lets nobody in: [^\n]* "alter database shop connection limit -1"[^\n]*\n$/,
  )
  // The command in the message lets the old store start again.
  await oldAdmin.query('alter database shop connection limit -1')
  await (await store.start()).stop()
})
