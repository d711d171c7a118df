import { setTimeout as delay } from 'node:timers/promises'
import type { Pool } from '../../src/db/pool.ts'
import { registerOperator } from '../rig/shop.ts'

/**
 * The paths that the console's screens poll, and the seconds between polls. In a browser one screen is open at a time.
 */
const POLLS: readonly (readonly [path: string, seconds: number])[] = [
  ['/admin/figures?range=hour', 10],
  ['/admin/figures?range=week', 10],
  ['/admin/orders?limit=50', 10],
  ['/admin/mails?limit=50', 5],
  ['/admin/webhooks?limit=100', 5],
  ['/admin/pipeline', 3],
]

/**
 * Opens all of the console's screens at once: polls like them, with entity tags, until the returned function is called.
 */
export async function openConsole(port: number, pool: Pool): Promise<() => Promise<void>> {
  const { token } = await registerOperator(port, pool)
  const closed = new AbortController()
  const polls = POLLS.map(async ([path, seconds]) => {
    let etag = ''
    while (!closed.signal.aborted) {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
        headers: { authorization: `Bearer ${token}`, ...(etag === '' ? {} : { 'if-none-match': etag }) },
      })
      await answer.arrayBuffer()
      if (!answer.ok && answer.status !== 304) throw new Error(`${path} was answered with ${answer.status}`)
      etag = answer.headers.get('etag') ?? ''
      await delay(seconds * 1_000, null, { signal: closed.signal }).catch(() => {})
    }
  })
  return async () => {
    closed.abort()
    await Promise.all(polls)
  }
}
