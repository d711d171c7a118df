import { once } from 'node:events'
import { type Cleanup, onCleanup } from '../../test/cleanup.ts'

/** The inspector of another process. */
export interface Inspector {
  /** The size of JavaScript's heap after a full garbage collection, in MiB. */
  heapAfterCollection(): Promise<number>
}

export async function openInspector(cleanup: Cleanup, url: string): Promise<Inspector> {
  const socket = new WebSocket(url)
  await once(socket, 'open')
  onCleanup(cleanup, () => socket.close())
  let id = 0
  const call = async (method: string) => {
    const mine = ++id
    const { promise, resolve } = Promise.withResolvers<{ usedSize?: number }>()
    const listen = ({ data }: MessageEvent) => {
      const answer = JSON.parse(String(data)) as { id?: number; result?: object }
      if (answer.id === mine) resolve(answer.result ?? {})
    }
    socket.addEventListener('message', listen)
    socket.send(JSON.stringify({ id: mine, method }))
    return promise.finally(() => socket.removeEventListener('message', listen))
  }
  return {
    async heapAfterCollection() {
      await call('HeapProfiler.collectGarbage')
      return ((await call('Runtime.getHeapUsage')).usedSize ?? Number.NaN) / 2 ** 20
    },
  }
}
