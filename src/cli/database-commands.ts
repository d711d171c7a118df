import { prepareDatabase } from '../app/prepare-database.ts'
import { assertEmbeddedIsMeant } from '../config.ts'
import { openSharedDatabase } from '../db/open-database.ts'
import type { Contexts } from './command.ts'

/** Brings the database's schema, replication slot, job queue and rights up to date. */
export async function migrate({ config, terminal, logger }: Contexts['settings']): Promise<number> {
  assertEmbeddedIsMeant(config)
  const database = await openSharedDatabase(config)
  try {
    await prepareDatabase(database.addresses, logger)
    terminal.out('the database is up to date')
    return 0
  } finally {
    await database.close()
  }
}
