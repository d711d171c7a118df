import pino from 'pino'
import { loggableError } from '../db/loggable-error.ts'

/** Removes the values of rows from logged errors. */
export const serializers = { err: (error: unknown) => pino.stdSerializers.err(loggableError(error) as Error) }
