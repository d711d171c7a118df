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

/** Several processes may run it at once. It retries for a lock, an hour by default, and logs the blocking sessions. */
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
  // The owner is checked first, because its check reports a missing role.
  await assertReachable(addresses, ['api', 'stream'])
  const retries = new LockRetries({ url: addresses.owner, onWaiting: (line) => logger.warn(line), ...locks })
  const applied = await migrate(addresses.owner, retries)
  if (applied.length > 0) logger.info({ applied }, 'migrated the database')
  await withClient(addresses.owner, async (owner) => {
    // Creating a slot waits for writing transactions. Nothing waits for the slot, so an attempt may take long.
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
        // The first start fills the catalogue like a lost slot, and may have been interrupted.
        logger[what === 'orders' ? 'warn' : 'info'](
          { slot: slots[what] },
          'the replication slot is lost: the role stream recreates it and publishes what it missed',
        )
  })
  const role = roleOf(addresses.api)
  await withClient(
    addresses.owner,
    async (owner) => {
      // A later release's processes may be running. This release would revoke their rights on tables that it does not
      // know.
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

export function orderSlotOf(url: string): string {
  return slotNameFor(databaseOf(url))
}

export function catalogueSlotOf(url: string): string {
  return slotNameFor(databaseOf(url), 'catalogue')
}

function databaseOf(url: string): string {
  const { pathname, username } = new URL(url)
  // An address without a database means the database named after the user.
  return decodeURIComponent(pathname.slice(1) || username)
}
