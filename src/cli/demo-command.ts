import { ROLES } from '../config.ts'
import type { DatabaseAddresses } from '../db/addresses.ts'
import { dataFolder } from '../db/embedded/data-folder.ts'
import { findEmbeddedPostgres } from '../db/embedded/embedded-postgres.ts'
import { createPool, type Pool } from '../db/pool.ts'
import { COMMAND_BOUNDS } from '../db/session-settings.ts'
import { type DemoOptions, runDemo } from '../demo/run-demo.ts'
import { type Contexts, EXIT_INTERRUPTED } from './command.ts'
import { withProgress } from './progress.ts'
import { withDatabase } from './run-command.ts'
import { serve } from './serve.ts'
import { onStopSignal } from './stop-signal.ts'

type DemoArguments = Pick<DemoOptions, 'isFast' | 'isForced' | 'orders'>

/**
 * Fills a store with demo data. If no store runs, it runs the embedded one like `serve`, so mails and lake files
 * follow.
 */
export async function demo(settings: Contexts['settings'], given: DemoArguments): Promise<number> {
  const { config, logger, terminal } = settings
  if (config.databaseAddresses === null && (await findEmbeddedPostgres(dataFolder(config.dataDir))) === null) {
    return serve(config, terminal, ROLES, async (addresses: DatabaseAddresses, signal) => {
      const onError = (error: Error) => logger.warn({ reason: error.message }, 'a database connection broke')
      const pool = createPool({ url: addresses.api, size: 4, applicationName: 'storefront-demo', bounds: COMMAND_BOUNDS, onError })
      await runWithProgress(settings, given, pool, signal).finally(() => pool.end())
    })
  }
  const stop = new AbortController()
  onStopSignal(
    () => stop.abort(),
    () => terminal.exit(EXIT_INTERRUPTED),
  )
  return withDatabase(settings, async ({ pool }) => {
    await runWithProgress(settings, given, pool, stop.signal)
    return 0
  })
}

async function runWithProgress({ config, logger, terminal }: Contexts['settings'], given: DemoArguments, pool: Pool, signal: AbortSignal) {
  const { orders, moves } = await withProgress('Placing invented orders', (progress) =>
    runDemo({
      ...{ ...given, pool, baseUrl: config.baseUrl, logger, signal },
      onOperatorCreated({ email, password }) {
        progress.clear()
        terminal.out(`operator: ${email}\npassword: ${password}\nIt is not shown again.`)
      },
      onProgress: (counts) => progress.show(`Placed ${counts.orders} invented orders, moved ${counts.moves} times`),
    }),
  )
  terminal.out(`placed ${orders} invented orders and changed their status ${moves} times`)
}
