import pino from 'pino'
import { loggableError } from '../db/loggable-error.ts'

/** What a log line holds of an error: nothing of a row's values. */
export const serializers = { err: (error: unknown) => pino.stdSerializers.err(loggableError(error) as Error) }
