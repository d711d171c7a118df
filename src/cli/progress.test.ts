import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createProgress } from './progress.ts'

function streamOf(isTTY: boolean) {
  const written: string[] = []
  return { written, isTTY, columns: 30, write: (text: string) => written.push(text) > 0 }
}

/** Advances the clock second by second. */
async function pass(t: TestContext, seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second++) {
    t.mock.timers.tick(1_000)
    await nextTurn()
  }
}

test('rewrites one line that fits the terminal, counts the seconds, and removes the line once', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const stream = streamOf(true)
  const progress = createProgress(stream)
  progress.show('Reading')
  progress.show('Reading a lake of many files and years')
  await pass(t, 1)
  progress.end()
  progress.end()
  progress.clear()
  await pass(t, 5)
  const long = '\r\x1b[KReading a lake of many files '
  assert.deepEqual(stream.written, ['\r\x1b[KReading …', long, long, '\r\x1b[K'])
})

test('to a stream that is not a terminal, writes nothing for short work, and a line every half minute for long work', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const stream = streamOf(false)
  const progress = createProgress(stream)
  progress.show('Reading')
  progress.clear()
  await pass(t, 29)
  assert.equal(stream.written.length, 0)
  progress.show('Comparing')
  await pass(t, 31)
  progress.end()
  await pass(t, 60)
  assert.deepEqual(
    stream.written.map((line) => line.replace(/\d+ s/, 'N s')),
    ['Comparing … N s\n', 'Comparing … N s\n'],
  )
})
