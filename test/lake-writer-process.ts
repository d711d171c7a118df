import { pino } from 'pino'
import { hookLakeSteps } from '../faults/lake-hooks.ts'

// Delivers messages from where the lake stands up to a last sequence, one small file after another, and kills itself in the midst of the
// file after so many: at any moment of its writing, at the latest before it appears.
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
const { LocalLakeStore } = await import('../src/lake/local-store.ts')
const { makeMessages } = await import('./order-event-factory.ts')
const sink = new LakeSink({ store: new LocalLakeStore(directory), flushSeconds: 60, flushRows: 20, logger: pino({ level: 'silent' }) })
await sink.start()
const stored = await sink.lastSequence()
await sink.handle(makeMessages(Number(last) - stored, stored + 1), new AbortController().signal)
await sink.stop()
