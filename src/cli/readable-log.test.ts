import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { createReadableLog } from './readable-log.ts'

function collect() {
  const lines: string[] = []
  const log = createReadableLog({ write: (line) => void lines.push(line.replace(/^\d\d:\d\d:\d\d /, '')) })
  return { lines, log, logger: pino({ level: 'trace' }, log) }
}

test('a line contains the time, the level, the message and the fields', () => {
  const { lines, logger } = collect()
  logger.info({ port: 3000, name: 'with a space', path: '/docs', roles: ['api'] }, 'listens')
  logger.child({ subscriber: 'email' }).debug('reads')
  assert.deepEqual(lines, ['info  listens port=3000 name="with a space" path=/docs roles=["api"]\n', 'debug reads subscriber=email\n'])
})

test('an error is followed by its stack', () => {
  const { lines, logger } = collect()
  logger.error({ err: new Error('no such luck'), id: 7 }, 'failed')
  assert.match(lines.join(''), /error failed id=7\n {2}Error: no such luck\n {6}at .+\n/)
})

test('text from clients can write neither control characters nor lines of its own', () => {
  const { lines, logger } = collect()
  const hostile = 'x\x1b]0;title\x07\r\n12:00:00 error forged\x9b2J\x7f'
  logger.warn({ agent: hostile, err: Object.assign(new Error(hostile), { stack: hostile }) }, hostile)
  const text = lines.join('')
  assert.doesNotMatch(text.replaceAll('\n', ''), /\p{Cc}/u)
  assert.deepEqual(
    text.split('\n').filter((line) => line.startsWith('12:00:00')),
    [],
  )
})

test('a brief log omits lines below warnings', () => {
  const { lines, log, logger } = collect()
  log.isBrief = true
  logger.info('starts')
  logger.warn('odd')
  log.isBrief = false
  logger.info('stopping')
  assert.deepEqual(lines, ['warn  odd\n', 'info  stopping\n'])
})
