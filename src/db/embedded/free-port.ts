import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

const TAKEN: readonly (string | undefined)[] = ['EADDRINUSE', 'EACCES']

export function freePort(): Promise<number> {
  return listenOnce(0)
}

export async function isFree(port: number): Promise<boolean> {
  try {
    await listenOnce(port)
    return true
  } catch (error) {
    if (TAKEN.includes((error as NodeJS.ErrnoException).code)) return false
    throw error
  }
}

async function listenOnce(wanted: number): Promise<number> {
  await using server = createServer().listen(wanted, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}
