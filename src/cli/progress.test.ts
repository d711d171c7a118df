import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createProgress } from './progress.ts'

function streamOf(isTTY: boolean) {
  const written: string[] = []
  return { written, isTTY, columns: 30, write: (text: string) => written.push(text) > 0 }
}

test('rewrites one line that fits the terminal, counts the seconds, and removes it once', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const stream = streamOf(true)
  const progress = createProgress(stream)
  progress.show('Reading')
  progress.show('Reading a lake of many files and years')
  t.mock.timers.tick(1_000)
  progress.end()
  progress.end()
  progress.clear()
  t.mock.timers.tick(5_000)
  const long = '\r\x1b[KReading a lake of many files '
  assert.deepEqual(stream.written, ['\r\x1b[KReading …', long, long, '\r\x1b[K'])
})

test('writes nothing of short work to what is no terminal, and of long work a line every half minute', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const stream = streamOf(false)
  const progress = createProgress(stream)
  progress.show('Reading')
  progress.clear()
  t.mock.timers.tick(29_000)
  assert.equal(stream.written.length, 0)
  progress.show('Comparing')
  t.mock.timers.tick(31_000)
  progress.end()
  t.mock.timers.tick(60_000)
  assert.deepEqual(
    stream.written.map((line) => line.replace(/\d+ s/, 'N s')),
    ['Comparing … N s\n', 'Comparing … N s\n'],
  )
})
