import type { Logger } from 'pino'
import { ensureReplicationSlot } from '../change-stream/ensure-slot.ts'
import { slotNameFor } from '../change-stream/replication-slot.ts'
import { type DatabaseAddresses, roleOf } from '../db/addresses.ts'
import { assertOwner, assertReachable, assertServer, explainMissingSlot } from '../db/assert-suitable.ts'
import { LockRetries, type LockRetryOptions } from '../db/lock-retries.ts'
import { isOfLaterRelease, migrate } from '../db/migrate.ts'
import { connectClient, type Queryable } from '../db/pool.ts'
import { grantRights } from '../db/rights.ts'
import { COMMAND_BOUNDS, MIGRATION_BOUNDS } from '../db/session-settings.ts'

/**
 * Updates schema, replication slots and the API's rights. Several processes may run it at once. What needs a lock that others hold is
 * retried, an hour by default, and the sessions in the way are logged.
 */
export async function prepareDatabase(
  addresses: DatabaseAddresses,
  logger: Logger,
  locks: Partial<Omit<LockRetryOptions, 'url'>> = {},
): Promise<void> {
  await assertReachable(addresses, ['owner'], { isNeeded: true })
  await withClient(addresses.owner, async (owner) => {
    await assertServer(owner)
    await assertOwner(owner, roleOf(addresses.api))
  })
  // The owner's check comes first, because it reports a role that does not exist.
  await assertReachable(addresses, ['api', 'stream'])
  const retries = new LockRetries({ url: addresses.owner, onWaiting: (line) => logger.warn(line), ...locks })
  const applied = await migrate(addresses.owner, retries)
  if (applied.length > 0) logger.info({ applied }, 'migrated the database')
  await withClient(addresses.owner, async (owner) => {
    // Its creation waits for transactions that write, and nothing waits for it: so a try may be long.
    const ensureSlot = async (what: 'orders' | 'catalogue', name: string) => {
      try {
        return await retries.run((watch) => ensureReplicationSlot(owner, addresses.stream, name, { what, onSession: watch }))
      } catch (error) {
        throw explainMissingSlot(roleOf(addresses.stream), name, error)
      }
    }
    const slots = { orders: orderSlotOf(addresses.owner), catalogue: catalogueSlotOf(addresses.owner) }
    for (const what of ['orders', 'catalogue'] as const)
      if ((await ensureSlot(what, slots[what])) === 'lost')
        // The catalogue is filled like a lost slot at the first start, which may have been interrupted.
        logger[what === 'orders' ? 'warn' : 'info'](
          { slot: slots[what] },
          'the replication slot is lost: the role stream recreates it and publishes what it missed',
        )
  })
  const role = roleOf(addresses.api)
  await withClient(
    addresses.owner,
    async (owner) => {
      // This release would revoke the rights on tables that it does not know, under the processes of the later one.
      if (await isOfLaterRelease(owner)) return
      const hasChanged = await retries.run(async (watch) => {
        await watch(owner)
        return grantRights(owner, role)
      })
      if (hasChanged) logger.info({ role }, "changed the rights of the API's role")
    },
    MIGRATION_BOUNDS,
  )
}

async function withClient(url: string, work: (client: Queryable) => Promise<void>, bounds = COMMAND_BOUNDS): Promise<void> {
  await using client = await connectClient(url, 'storefront-migrate', undefined, bounds)
  await work(client)
}

/** The replication slot of the order stream of the database at this address. */
export function orderSlotOf(url: string): string {
  return slotNameFor(databaseOf(url))
}

/** The replication slot of the catalogue's stream of the database at this address. */
export function catalogueSlotOf(url: string): string {
  return slotNameFor(databaseOf(url), 'catalogue')
}

function databaseOf(url: string): string {
  const { pathname, username } = new URL(url)
  // An address without a database means the one named after the user.
  return decodeURIComponent(pathname.slice(1) || username)
}
