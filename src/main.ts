import pino from 'pino'
import { readDate, readFormat, readLimit, readMailFilter, readReplayArguments, readStatus, UsageError } from './arguments.ts'
import { readCommandLine } from './command-line.ts'
import type { Terminal } from './commands.ts'
import { type Config, parseRoles, readConfig } from './config.ts'
import { isDatabaseOutage } from './db/constraints.ts'
import { loggableError } from './db/loggable-error.ts'
import type { DatabaseOptions } from './db/open-database.ts'
import { readPassword } from './read-password.ts'
import { onStopSignal } from './stop-signal.ts'
import { USAGE, usageOf } from './usage.ts'

const EXIT_FAILURE = 1
const EXIT_USAGE = 2
const EXIT_INTERRUPTED = 130
const STOP_PATIENCE_MS = 9_500

/** Each command loads what it needs and no more: a command that prints something should not wait for a whole store. */
const load = {
  general: () => import('./commands.ts'),
  accounts: () => import('./account-commands.ts'),
  catalogue: () => import('./catalogue-commands.ts'),
  documents: () => import('./document-commands.ts'),
  lake: () => import('./lake-commands.ts'),
  mail: () => import('./mail-commands.ts'),
  pipeline: () => import('./pipeline-commands.ts'),
  webhooks: () => import('./webhook-commands.ts'),
}

async function run(args: string[]): Promise<number> {
  const { command, rest, values } = readCommandLine(args)
  const [argument = '', other] = rest
  if (values.help || command === undefined) {
    console.log(USAGE)
    return 0
  }
  const config = readConfig()
  switch (command) {
    case 'serve':
      return serve(values.role === undefined ? config : Object.freeze({ ...config, roles: parseRoles(values.role) }))
    case 'migrate':
      return (await load.general()).migrateCommand(config, terminal(config))
    case 'openapi':
      return (await load.documents()).openApiCommand(terminal(config))
    case 'asyncapi':
      return (await load.documents()).asyncApiCommand(terminal(config), values.write ?? null)
    case 'catalogue import':
      return (await load.catalogue()).importCommand(config, terminal(config), argument, readFormat(values.format))
    case 'catalogue export':
      return (await load.catalogue()).exportCommand(config, terminal(config), readFormat(values.format) ?? 'ndjson', values.stock ?? false)
    case 'admin create': {
      const password = await readPassword('Password (empty: make one up): ')
      return password === null ? EXIT_INTERRUPTED : (await load.accounts()).adminCreateCommand(config, terminal(config), argument, password)
    }
    case 'keys rotate':
      return (await load.accounts()).keysRotateCommand(config, terminal(config))
    case 'mail list':
      return (await load.mail()).mailListCommand(config, terminal(config), readMailFilter(values))
    case 'mail retry':
      return (await load.mail()).mailRetryCommand(config, terminal(config), values['all-failed'] ? null : argument)
    case 'webhook add':
      return (await load.webhooks()).webhookAddCommand(config, terminal(config), argument, values.events)
    case 'webhook list':
      return (await load.webhooks()).webhookListCommand(config, terminal(config))
    case 'webhook deliveries': {
      const status = readStatus(values.status, ['queued', 'delivered', 'failed'])
      return (await load.webhooks()).webhookDeliveriesCommand(config, terminal(config), argument, {
        status,
        limit: readLimit(values.limit),
      })
    }
    case 'webhook redeliver':
      return (await load.webhooks()).webhookRedeliverCommand(config, terminal(config), argument, other ?? null)
    case 'webhook enable':
      return (await load.webhooks()).webhookEnableCommand(config, terminal(config), argument)
    case 'webhook rotate':
      return (await load.webhooks()).webhookRotateCommand(config, terminal(config), argument)
    case 'webhook remove':
      return (await load.webhooks()).webhookRemoveCommand(config, terminal(config), argument)
    case 'verify':
      return (await load.pipeline()).verifyCommand(config, terminal(config), values.json ? 'json' : 'text')
    case 'replay':
      return (await load.pipeline()).replayCommand(config, terminal(config), readReplayArguments(values))
    case 'lake query':
      return (await load.lake()).lakeQueryCommand(config, terminal(config), argument, { allowFiles: values['allow-files'] === true })
    case 'lake compact':
      return (await load.lake()).lakeCompactCommand(config, terminal(config), readDate(values.date))
  }
}

const serializers = { err: (error: unknown) => pino.stdSerializers.err(loggableError(error) as Error) }

/** A command's output is its own; what it logs goes to standard error. */
function terminal(config: Config): Terminal {
  const level = config.logLevel === 'info' ? 'warn' : config.logLevel
  return { out: (line) => console.log(line), err: (line) => console.error(line), logger: pino({ level, serializers }, pino.destination(2)) }
}

/** PostgreSQL starts while the code of the store is loaded: either takes a second. */
async function loadStore(options: DatabaseOptions) {
  const { openOwnDatabase } = await import('./db/open-database.ts')
  const [opening, loading] = await Promise.allSettled([openOwnDatabase(options), import('./app.ts')])
  if (opening.status === 'rejected') throw opening.reason
  if (loading.status === 'fulfilled') return { createApp: loading.value.createApp, database: opening.value }
  await opening.value.close()
  throw loading.reason
}

/** Runs the store until a signal, or until it cannot go on. */
async function serve(config: Config): Promise<number> {
  // Not one write for each line where many requests come: lines that come while one is being written leave together.
  const logger = pino({ level: config.logLevel, serializers }, pino.destination({ fd: 1, sync: false }))
  const ended = Promise.withResolvers<number>()
  onStopSignal(
    () => ended.resolve(0),
    () => process.exit(EXIT_INTERRUPTED),
  )
  const onUnexpectedExit = (message: string) => {
    logger.fatal(message)
    ended.resolve(EXIT_FAILURE)
  }
  const { createApp, database } = await loadStore({ ...config, onUnexpectedExit, onWarning: (message) => logger.warn(message) })
  const app = await createApp({ config, logger, database })
  try {
    await app.start()
    const status = await ended.promise
    logger.info('stopping')
    return status
  } finally {
    const impatience = setTimeout(() => {
      logger.fatal('did not stop in time')
      process.exit(EXIT_FAILURE)
    }, STOP_PATIENCE_MS)
    await app.stop()
    clearTimeout(impatience)
  }
}

/** Errors that say all there is to say; any other one is shown with its stack. By name: their classes come with what throws them. */
const PLAIN_ERRORS = [
  'AppError',
  'ConfigError',
  'DataFolderInUse',
  'DataFolderOpen',
  'LakeBusy',
  'LakeQueryError',
  'MigrationsPending',
  'PostgresUnavailable',
  'SecretUnusable',
  'StoreMissing',
  'SlotUnavailable',
  'TemplateError',
  'WebhookRefused',
  'UnknownSubscriber',
  'TopicMoved',
  'WrongSecret',
]

// SQLSTATEs: no access for this user, a wrong password, no such database.
const DATABASE_REFUSALS = ['28000', '28P01', '3D000']

try {
  process.exitCode = await run(process.argv.slice(2))
} catch (error) {
  const { code = '', message, name } = error as NodeJS.ErrnoException
  if (error instanceof UsageError) console.error(`storefront: ${message}\n\n${usageOf(error.command)}`)
  else if (PLAIN_ERRORS.includes(name) || code === 'EADDRINUSE' || code === 'ENOENT') console.error(`storefront: ${message}`)
  else if (isDatabaseOutage(error) || DATABASE_REFUSALS.includes(code))
    console.error(`storefront: the database cannot be used: ${message || code}`)
  else console.error(error)
  process.exitCode = ['UsageError', 'ConfigError', 'TemplateError'].includes(name) ? EXIT_USAGE : EXIT_FAILURE
}
