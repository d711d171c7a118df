import { once } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Worker } from 'node:worker_threads'
import { type Cleanup, onCleanup } from '../cleanup.ts'
import type { RawAnswer, RawRequest } from './raw-client.ts'

// The requests are made in the heap of the server's thread: without this their garbage is collected while the server
// is measured.
setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void
const LARGE_BYTES = 1_000_000

export interface Measured {
  status: RawAnswer
  stallMs: number
}

/** Sends raw requests from another thread, and measures how long each held up the event loop of this one. */
export class StallMeter {
  readonly #worker = new Worker(new URL('./raw-client.ts', import.meta.url))

  constructor(t: Cleanup) {
    onCleanup(t, async () => void (await this.#worker.terminate()))
  }

  /**
   * The longest turn of the event loop while the request was answered, in processor time of this thread: time in
   * which the machine stands still or runs other processes does not count.
   */
  async measure(request: RawRequest): Promise<Measured> {
    if (request.bytes.length > LARGE_BYTES) collectGarbage()
    let stallMs = 0
    let isAnswered = false
    const answer = once(this.#worker, 'message').finally(() => {
      isAnswered = true
    })
    this.#worker.postMessage(request, [request.bytes.buffer as ArrayBuffer])
    for (let before = threadMs(); !isAnswered; ) {
      await nextTurn()
      const now = threadMs()
      stallMs = Math.max(stallMs, now - before)
      before = now
    }
    const [status] = (await answer) as [RawAnswer]
    return { status, stallMs }
  }
}

function threadMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
