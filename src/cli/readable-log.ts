import { styleText } from 'node:util'
import pino, { type DestinationStream } from 'pino'
import { loggableError } from '../db/loggable-error.ts'
import { escapeControls } from './format-table.ts'

const LEVELS: Readonly<Record<number, string>> = { 10: 'trace', 20: 'debug', 30: 'info', 40: 'warn', 50: 'error', 60: 'fatal' }
const WARN = 40
const ERROR = 50
const IN_EVERY_LINE = ['level', 'time', 'pid', 'hostname', 'msg', 'err']

/** Writes pino's lines in a readable form. */
export interface ReadableLog extends DestinationStream {
  /** Whether lines below `warn` are left out. */
  isBrief: boolean
}

/** `beforeLine` is called before each line, for example to remove a line of progress. */
export function createReadableLog(destination: DestinationStream, beforeLine: () => void = () => {}): ReadableLog {
  return {
    isBrief: false,
    write(line) {
      const record = JSON.parse(line) as LogRecord
      if (this.isBrief && record.level < WARN) return
      beforeLine()
      destination.write(formatLog(record))
    },
  }
}

interface LogRecord {
  level: number
  time: number
  msg?: string
  err?: { message?: string; stack?: string }
  [field: string]: unknown
}

/**
 * Formats a record as `12:03:45 warn  message field=value` with an error's stack. Escapes control characters, so a
 * field cannot forge a line.
 */
function formatLog(record: LogRecord): string {
  const { level, time, msg = '', err } = record
  const name = (LEVELS[level] ?? String(level)).padEnd(5)
  const fields = Object.entries(record)
    .filter(([field]) => !IN_EVERY_LINE.includes(field))
    .map(([field, value]) => ` ${field}=${typeof value === 'string' && !/[\s"=]/.test(value) ? value : JSON.stringify(value)}`)
  const stack = (err?.stack ?? err?.message ?? '').split('\n').map((part) => (part === '' ? '' : `\n  ${escapeControls(part)}`))
  const shownName = level >= ERROR ? styleText('red', name) : level >= WARN ? styleText('yellow', name) : name
  return `${new Date(time).toTimeString().slice(0, 8)} ${shownName} ${escapeControls(msg + fields.join(''))}${stack.join('')}\n`
}

/** Logged errors must not contain the values of rows. */
export const serializers = { err: (error: unknown) => pino.stdSerializers.err(loggableError(error) as Error) }
