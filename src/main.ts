import { parseArgs } from 'node:util'
import pino from 'pino'
import { createApp } from './app.ts'
import { WrongSecret } from './auth/signing-keys.ts'
import {
  adminCreateCommand,
  asyncApiCommand,
  exportCommand,
  importCommand,
  keysRotateCommand,
  migrateCommand,
  openApiCommand,
  type Terminal,
} from './commands.ts'
import { type Config, ConfigError, parseRoles, readConfig } from './config.ts'
import { isDatabaseOutage } from './db/constraints.ts'
import { DataFolderInUse } from './db/data-folder.ts'
import { MigrationsPending } from './db/migrate.ts'
import { PostgresUnavailable } from './db/postgres-launcher.ts'
import { AppError } from './errors.ts'
import { lakeCompactCommand, lakeQueryCommand } from './lake-commands.ts'
import { mailListCommand, mailRetryCommand } from './mail-commands.ts'
import { DELIVERY_STATUSES, type DeliveryFilter } from './pipeline/email/email-deliveries.ts'
import { TemplateError } from './pipeline/email/templates.ts'
import { LakeBusy } from './pipeline/lake/lake-lock.ts'
import { LakeQueryError } from './pipeline/lake/lake-query.ts'
import { TopicMoved } from './pipeline/postgres-topic.ts'
import { UnknownSubscriber } from './pipeline/replay/rewind-subscriber.ts'
import { WEBHOOK_STATUSES } from './pipeline/webhook/webhook-deliveries.ts'
import { WebhookRefused } from './pipeline/webhook/webhook-url.ts'
import { type ReplayArguments, replayCommand, verifyCommand } from './pipeline-commands.ts'
import { readPassword } from './read-password.ts'
import {
  webhookAddCommand,
  webhookDeliveriesCommand,
  webhookEnableCommand,
  webhookListCommand,
  webhookRedeliverCommand,
  webhookRemoveCommand,
} from './webhook-commands.ts'

const USAGE = `usage: storefront <command>

  serve [--role api|stream|email|lake|webhook]…
                                            run the store; every role unless some are named
  migrate                                   bring the database's schema up to date
  catalogue import FILE|- [--format ndjson|csv]
                                            add and update products by sku; exit status 1 when a line was refused
  catalogue export [--format ndjson|csv]    write every product to standard output, as the import reads it
  lake query "select …"                     run SQL over the views order_events and orders
  lake compact [--date YYYY-MM-DD]          merge the small files of each day before today, or of one day
  admin create EMAIL                        make an operator's account; the password is asked for, or read from standard
                                            input, or made up and printed when it is empty
  keys rotate                               sign access tokens with a new key; the old one is good until they expire
  mail list [--status queued|sent|failed] [--order ID|NUMBER] [--limit N]
                                            the newest order mails and what became of them
  mail retry EVENT_ID|--all-failed          try a mail again that was given up, or all of them
  webhook add URL [--events TYPE,…|all]     post order events to URL from now on; prints the secret that signs them, once
  webhook list                              the endpoints, and how they fare
  webhook deliveries ID [--status queued|delivered|failed] [--limit N]
                                            an endpoint's newest deliveries
  webhook redeliver ID EVENT_ID|--all-failed
                                            deliver an event again, or all that failed
  webhook enable ID                         let a disabled endpoint get webhooks again
  webhook remove ID                         forget an endpoint and its deliveries
  verify [--json]                           compare orders, topic, mails and lake; exit status 1 when something is missing,
                                            doubled or corrupt
  replay [--since TIME] [--order ID]        publish order changes that the topic lacks; renews a lost replication slot
  replay --subscriber NAME [--since TIME]   let a subscriber read again what it has missed
  openapi                                   print the OpenAPI document
  asyncapi [--write FOLDER]                 print the AsyncAPI document of the order events, or write it and a JSON Schema
                                            for each event into a folder

Settings come from the environment; README.md lists them.`

const EXIT_FAILURE = 1
const EXIT_USAGE = 2
const EXIT_INTERRUPTED = 130
const STOP_PATIENCE_MS = 9_500

class UsageError extends Error {}

async function run(args: string[]): Promise<number> {
  const { positionals, values } = readArguments(args)
  const [command, ...rest] = positionals
  if (values.help) {
    console.log(USAGE)
    return 0
  }
  const config = readConfig()
  switch ([command, ...rest.slice(0, 1)].join(' ')) {
    case 'serve':
      return serve(values.role === undefined ? config : Object.freeze({ ...config, roles: parseRoles(values.role) }))
    case 'migrate':
      return migrateCommand(config, terminal(config))
    case 'openapi':
      return openApiCommand(terminal(config))
    case 'asyncapi':
      return asyncApiCommand(terminal(config), values.write ?? null)
    case 'catalogue import':
      return importCommand(config, terminal(config), onlyArgument(rest, 'FILE'), readFormat(values.format))
    case 'catalogue export':
      if (rest.length > 1) throw new UsageError('catalogue export takes no argument: it writes to standard output')
      return exportCommand(config, terminal(config), readFormat(values.format) ?? 'ndjson')
    case 'admin create': {
      const email = onlyArgument(rest, 'EMAIL')
      const password = await readPassword('Password (empty: make one up): ')
      return password === null ? EXIT_INTERRUPTED : adminCreateCommand(config, terminal(config), email, password)
    }
    case 'keys rotate':
      if (rest.length > 1) throw new UsageError('keys rotate takes no argument')
      return keysRotateCommand(config, terminal(config))
    case 'mail list':
      return mailListCommand(config, terminal(config), readMailFilter(rest, values))
    case 'mail retry':
      return mailRetryCommand(config, terminal(config), values['all-failed'] ? null : onlyArgument(rest, 'EVENT_ID or --all-failed'))
    case 'webhook add':
      return webhookAddCommand(config, terminal(config), onlyArgument(rest, 'URL'), values.events)
    case 'webhook list':
      return webhookListCommand(config, terminal(config))
    case 'webhook deliveries': {
      const status = readStatus(values.status, WEBHOOK_STATUSES)
      return webhookDeliveriesCommand(config, terminal(config), onlyArgument(rest, 'ID'), { status, limit: readLimit(values.limit) })
    }
    case 'webhook redeliver': {
      const [verb = '', id = '', ...more] = rest
      const eventId = values['all-failed'] ? null : onlyArgument([verb, ...more], 'EVENT_ID or --all-failed')
      return webhookRedeliverCommand(config, terminal(config), id, eventId)
    }
    case 'webhook enable':
      return webhookEnableCommand(config, terminal(config), onlyArgument(rest, 'ID'))
    case 'webhook remove':
      return webhookRemoveCommand(config, terminal(config), onlyArgument(rest, 'ID'))
    case 'verify':
      return verifyCommand(config, terminal(config), values.json ? 'json' : 'text')
    case 'replay':
      return replayCommand(config, terminal(config), readReplayArguments(values))
    case 'lake query':
      return lakeQueryCommand(config, terminal(config), onlyArgument(rest, 'SQL'))
    case 'lake compact':
      if (rest.length > 1) throw new UsageError('lake compact takes options only')
      return lakeCompactCommand(config, terminal(config), readDate(values.date))
    default:
      throw new UsageError(command === undefined ? 'which command?' : `there is no such command: ${positionals.join(' ')}`)
  }
}

function readArguments(args: string[]) {
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        role: { type: 'string', multiple: true },
        format: { type: 'string' },
        status: { type: 'string' },
        order: { type: 'string' },
        limit: { type: 'string' },
        events: { type: 'string' },
        'all-failed': { type: 'boolean' },
        date: { type: 'string' },
        since: { type: 'string' },
        subscriber: { type: 'string' },
        json: { type: 'boolean' },
        write: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    })
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

function onlyArgument([, value, ...more]: string[], name: string): string {
  if (value === undefined || more.length > 0) throw new UsageError(`give one ${name}`)
  return value
}

function readFormat(value: string | undefined): 'ndjson' | 'csv' | undefined {
  if (value === undefined || value === 'ndjson' || value === 'csv') return value
  throw new UsageError('--format must be ndjson or csv')
}

function readMailFilter(
  [, ...more]: string[],
  { status, order, limit }: { status?: string; order?: string; limit?: string },
): DeliveryFilter {
  if (more.length > 0) throw new UsageError('mail list takes options only')
  if (order !== undefined && !ORDER.test(order)) throw new UsageError('--order must be an id or a number of an order')
  return { status: readStatus(status, DELIVERY_STATUSES), order, limit: readLimit(limit) }
}

function readDate(value: string | undefined): string | undefined {
  if (value === undefined || (/^\d{4}-\d{2}-\d{2}$/.test(value) && !Number.isNaN(Date.parse(value)))) return value
  throw new UsageError('--date must be a day such as 2026-03-01')
}

function readStatus<T extends string>(value: string | undefined, known: readonly T[]): T | undefined {
  const status = known.find((name) => name === value)
  if (value !== undefined && status === undefined) throw new UsageError(`--status must be one of ${known.join(', ')}`)
  return status
}

const ORDER = /^(\d{1,18}|[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12})$/i
const DEFAULT_LIMIT = 50
const MAX_LIMIT = 10_000

function readLimit(value: string | undefined): number {
  if (value === undefined) return DEFAULT_LIMIT
  const limit = /^\d{1,9}$/.test(value) ? Number(value) : 0
  if (limit < 1 || limit > MAX_LIMIT) throw new UsageError(`--limit must be a whole number from 1 to ${MAX_LIMIT}`)
  return limit
}

const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i

function readReplayArguments({ since, order, subscriber }: { since?: string; order?: string; subscriber?: string }): ReplayArguments {
  if (order !== undefined && !UUID.test(order)) throw new UsageError('--order must be the id of an order')
  if (order !== undefined && subscriber !== undefined) throw new UsageError('--order and --subscriber do not go together')
  if (subscriber === 'lake' && since !== undefined) throw new UsageError('the lake finds out by itself what it lacks: leave --since out')
  const time = since === undefined ? undefined : new Date(since)
  if (time !== undefined && Number.isNaN(time.getTime())) throw new UsageError('--since must be a time such as 2026-03-01T12:00:00Z')
  return { since: time, orderId: order?.toLowerCase(), subscriber }
}

/** A command's output is its own; what it logs goes to standard error. */
function terminal(config: Config): Terminal {
  const level = config.logLevel === 'info' ? 'warn' : config.logLevel
  return { out: (line) => console.log(line), err: (line) => console.error(line), logger: pino({ level }, pino.destination(2)) }
}

/** Runs the store until a signal, or until it cannot go on. */
async function serve(config: Config): Promise<number> {
  const logger = pino({ level: config.logLevel })
  const ended = Promise.withResolvers<number>()
  process.once('SIGTERM', () => ended.resolve(0))
  process.once('SIGINT', () => ended.resolve(0))
  const app = await createApp({
    config,
    logger,
    onFatal(message) {
      logger.fatal(message)
      ended.resolve(EXIT_FAILURE)
    },
  })
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

/** Errors that say all there is to say; any other one is shown with its stack. */
const PLAIN_ERRORS = [
  AppError,
  ConfigError,
  DataFolderInUse,
  LakeBusy,
  LakeQueryError,
  MigrationsPending,
  PostgresUnavailable,
  TemplateError,
  WebhookRefused,
  UnknownSubscriber,
  TopicMoved,
  WrongSecret,
]

// SQLSTATEs: no access for this user, a wrong password, no such database.
const DATABASE_REFUSALS = ['28000', '28P01', '3D000']

try {
  process.exitCode = await run(process.argv.slice(2))
} catch (error) {
  const { code = '', message } = error as NodeJS.ErrnoException
  if (error instanceof UsageError) console.error(`storefront: ${message}\n\n${USAGE}`)
  else if (PLAIN_ERRORS.some((type) => error instanceof type) || code === 'EADDRINUSE' || code === 'ENOENT')
    console.error(`storefront: ${message}`)
  else if (isDatabaseOutage(error) || DATABASE_REFUSALS.includes(code))
    console.error(`storefront: the database cannot be used: ${message || code}`)
  else console.error(error)
  process.exitCode = [UsageError, ConfigError, TemplateError].some((type) => error instanceof type) ? EXIT_USAGE : EXIT_FAILURE
}
