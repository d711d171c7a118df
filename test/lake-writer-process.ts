import { pino } from 'pino'
import { LakeSink } from '../src/pipeline/lake/lake-sink.ts'
import { LocalLakeStore } from '../src/pipeline/lake/local-store.ts'
import { makeMessages } from './order-event-factory.ts'

// Delivers messages from where the lake stands up to a last sequence, one small file after another, until it is killed.
const [directory = '', last = '0'] = process.argv.slice(2)
const sink = new LakeSink({ store: new LocalLakeStore(directory), flushSeconds: 60, flushRows: 20, logger: pino({ level: 'silent' }) })
await sink.start()
const stored = await sink.lastSequence()
await sink.handle(makeMessages(Number(last) - stored, stored + 1), new AbortController().signal)
await sink.stop()
