import { pino } from 'pino'
import { hookLakeSteps } from '../faults/lake-hooks.ts'

// Delivers messages from the lake's position up to a last sequence, one small file after another. Kills itself while
// it writes the file after the given number of files, at a random moment, at the latest before that file is
// published.
const [directory = '', last = '0', files = '0'] = process.argv.slice(2)
const die = () => process.kill(process.pid, 'SIGKILL')
let written = 0
hookLakeSteps((step) => {
  if (step === 'before link' && written >= Number(files)) die()
  if (step !== 'after link') return
  written += 1
  if (written === Number(files)) setTimeout(die, Math.random() * 20)
})

const { LakeSink } = await import('../src/lake/lake-sink.ts')
const { ORDER_DATASET } = await import('../src/lake/lake-dataset.ts')
const { LocalLakeStore } = await import('../src/lake/local-store.ts')
const { makeMessages } = await import('./order-event-factory.ts')
const sink = new LakeSink({
  dataset: ORDER_DATASET,
  store: new LocalLakeStore(directory),
  flushSeconds: 60,
  flushRows: 20,
  logger: pino({ level: 'silent' }),
})
await sink.start()
const stored = await sink.lastSequence()
await sink.handle(makeMessages(Number(last) - stored, stored + 1), new AbortController().signal)
await sink.stop()
