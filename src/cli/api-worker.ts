// A further process of the API: see src/cli/api-workers.ts. Its parent sends the settings, and it ends when the parent does.
import { once } from 'node:events'
import type { Config } from '../config.ts'
import { explainError } from './explain-error.ts'
import { serveApiWorker } from './serve.ts'

const exit = () => process.exit()
process.once('disconnect', exit)
const [config] = (await once(process, 'message')) as [Config]
process.off('disconnect', exit)
const sayAlive = () => {
  process.send?.('alive', undefined, undefined, () => {})
}
// Each further message asks whether this process still answers.
process.on('message', sayAlive)
let status = 1
try {
  status = await serveApiWorker(config, (forced) => process.exit(forced), sayAlive)
} catch (error) {
  console.error(`storefront: ${explainError(error)?.message ?? (error as Error).stack}`)
}
// The open channel would keep it alive.
process.exit(status)
