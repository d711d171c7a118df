import type { Command, Contexts, Options, Terminal, Values } from './command.ts'

/** Opens what the command needs, and closes it afterwards. Returns the exit status. */
export async function runCommand(command: Command, terminal: Terminal, values: Values<Options>, args: readonly string[]): Promise<number> {
  const perform = (context: Contexts[keyof Contexts]) => command.run(context, values, ...args)
  if (command.needs === 'nothing') return perform({ terminal })
  const settings = await readSettings(terminal)
  switch (command.needs) {
    case 'settings':
      return perform(settings)
    case 'database':
      return withDatabase(settings, perform)
    case 'lake':
      return withLake(settings, perform)
  }
}

async function readSettings(terminal: Terminal): Promise<Contexts['settings']> {
  const [{ readConfig, readEnvironment }, { default: pino }, { serializers }] = await Promise.all([
    import('../config.ts'),
    import('pino'),
    import('./readable-log.ts'),
  ])
  const config = readConfig()
  for (const line of readEnvironment().misspelt) terminal.err(`storefront: ${line}`)
  // Standard output is for the command's result, so the log goes to standard error.
  const level = config.logLevel === 'info' ? 'warn' : config.logLevel
  return { terminal, config, logger: pino({ level, serializers }, pino.destination(2)) }
}

/** Uses a running store's database, or starts one. Throws StoreMissing or MigrationsPending. */
export async function withDatabase(
  settings: Contexts['settings'],
  work: (context: Contexts['database']) => Promise<number>,
): Promise<number> {
  const { config, logger } = settings
  // Imported here, so that help does not load it.
  const [{ assertEmbeddedIsMeant }, { assertReachable }, { openExistingDatabase }, { createPool }, { COMMAND_BOUNDS }, { assertMigrated }] =
    await Promise.all([
      import('../config.ts'),
      import('../db/assert-suitable.ts'),
      import('../db/open-database.ts'),
      import('../db/pool.ts'),
      import('../db/session-settings.ts'),
      import('../db/migrate.ts'),
    ])
  assertEmbeddedIsMeant(config)
  const database = await openExistingDatabase(config)
  const pool = createPool({
    url: database.addresses.api,
    size: 4,
    applicationName: 'storefront-command',
    bounds: COMMAND_BOUNDS,
    onError: (error) => logger.warn({ reason: error.message }, 'a database connection broke'),
  })
  try {
    if (config.databaseAddresses !== null) await assertReachable(database.addresses, ['api'])
    await assertMigrated(pool)
    return await work({ ...settings, pool, addresses: database.addresses })
  } finally {
    await pool.end()
    await database.close()
  }
}

async function withLake(settings: Contexts['settings'], work: (context: Contexts['lake']) => Promise<number>): Promise<number> {
  const { openExistingLake } = await import('../app/open-lake.ts')
  const lake = await openExistingLake(settings.config)
  try {
    return await work({ ...settings, lake })
  } finally {
    lake.close()
  }
}
