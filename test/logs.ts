import { type Logger, pino } from 'pino'

/** A logger, and each line that it has written, as text and parsed. */
export function collectLog<Entry = Record<string, unknown>>(level = 'info'): { logger: Logger; lines: string[]; entries: Entry[] } {
  const lines: string[] = []
  const entries: Entry[] = []
  const write = (line: string) => {
    lines.push(line)
    entries.push(JSON.parse(line))
  }
  return { logger: pino({ level }, { write }), lines, entries }
}
