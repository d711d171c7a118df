// A further process of the store: see src/cli/workers.ts. Its parent sends the settings, and the process ends when the
// parent does.
import { once } from 'node:events'
import { boundCheck, type ProcessReport } from '../app/service.ts'
import type { Config } from '../config.ts'
import { isDatabaseOutage } from '../db/failures.ts'
import { explainError } from './explain-error.ts'
import { Questions } from './questions.ts'
import { serveWorker } from './serve.ts'
import type { ParentMessage, WorkerMessage } from './workers.ts'

/** The parent asks the others for a second, and the pipeline is read within two. */
const STATES_MS = 1_500

const exit = () => process.exit()
process.once('disconnect', exit)
const [config] = (await once(process, 'message')) as [Config]
process.off('disconnect', exit)
const tell = (message: WorkerMessage) => {
  process.send?.(message, undefined, undefined, () => {})
}
let report: ProcessReport | null = null
const questions = new Questions()
// The parent asks for a report, or only whether this process still answers.
process.on('message', async (message: ParentMessage) => {
  if (message === 'ping') return tell('alive')
  if (!('about' in message)) return questions.take(message)
  const answer = await report?.[message.about]().catch(() => undefined)
  tell({ id: message.id, answer })
})
/** The parent knows the states of all processes of the start. */
const readStates = async () =>
  (await questions.ask((question, onSent) => process.send?.(question, undefined, undefined, onSent), 'states', STATES_MS)) ?? []
let status = 1
try {
  status = await serveWorker(config, {
    exit: (forced) => process.exit(forced),
    readStates,
    onStarted(started) {
      report = { ...started, failing: boundCheck(started.failing) }
      tell('started')
    },
  })
} catch (error) {
  const explained = explainError(error)
  if (explained === null || process.send === undefined) console.error(`storefront: ${explained?.message ?? (error as Error).stack}`)
  // The parent logs the refusal.
  else {
    const refusal = { refusal: explained.message, exitStatus: explained.exitStatus, isOutage: isDatabaseOutage(error) }
    await new Promise((resolve) => process.send?.(refusal satisfies WorkerMessage, undefined, undefined, resolve))
  }
}
// The open channel would keep the process alive.
process.exit(status)
