import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

const TAKEN: readonly (string | undefined)[] = ['EADDRINUSE', 'EACCES']

/** A TCP port of 127.0.0.1 that no process listens on now, chosen by the kernel. */
export function freePort(): Promise<number> {
  return listenOnce(0)
}

/** Whether this process can listen on the port of 127.0.0.1 now. */
export async function isFree(port: number): Promise<boolean> {
  try {
    await listenOnce(port)
    return true
  } catch (error) {
    if (TAKEN.includes((error as NodeJS.ErrnoException).code)) return false
    throw error
  }
}

/** Returns the port; for 0 the kernel chooses one. */
async function listenOnce(wanted: number): Promise<number> {
  await using server = createServer().listen(wanted, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}
