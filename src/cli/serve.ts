import pino from 'pino'
import { assertEmbeddedIsMeant, type Config, ROLES, type Role } from '../config.ts'
import { type DatabaseOptions, openOwnDatabase } from '../db/open-database.ts'
import { EXIT_INTERRUPTED, type Terminal } from './command.ts'
import { serializers } from './log-serializers.ts'
import { onStopSignal } from './stop-signal.ts'

const EXIT_FAILURE = 1
const STOP_PATIENCE_MS = 9_500

/** Runs the store until a signal. `roles` of the command line replace those of the setting. */
export async function serve(settings: Config, { exit }: Terminal, roles: readonly Role[] = settings.roles): Promise<number> {
  const config = Object.freeze({ ...settings, roles: ROLES.filter((role) => roles.includes(role)) })
  assertEmbeddedIsMeant(config)
  // Lines logged during a write are written together: not one write for each request.
  const logger = pino({ level: config.logLevel, serializers }, pino.destination({ fd: 1, sync: false }))
  const ended = Promise.withResolvers<number>()
  onStopSignal(
    () => ended.resolve(0),
    () => exit(EXIT_INTERRUPTED),
  )
  const { createApp, database } = await loadStore({
    ...config,
    onUnexpectedExit: (message) => logger.error(`${message}; it is started again with pauses`),
    onRestarted: () => logger.info('the embedded PostgreSQL runs again'),
    onWarning: (message) => logger.warn(message),
  })
  const app = await createApp({ config, logger, database })
  try {
    await app.start()
    const status = await ended.promise
    logger.info('stopping')
    return status
  } finally {
    const impatience = setTimeout(() => {
      logger.fatal('did not stop in time')
      exit(EXIT_FAILURE)
    }, STOP_PATIENCE_MS)
    await app.stop()
    clearTimeout(impatience)
  }
}

/** Starts PostgreSQL while the code of the store is imported: each takes about a second. */
async function loadStore(options: DatabaseOptions) {
  const [opening, loading] = await Promise.allSettled([openOwnDatabase(options), import('../app.ts')])
  if (opening.status === 'rejected') throw opening.reason
  if (loading.status === 'fulfilled') return { createApp: loading.value.createApp, database: opening.value }
  await opening.value.close()
  throw loading.reason
}
