import { createServer } from 'node:net'

const TAKEN: readonly (string | undefined)[] = ['EADDRINUSE', 'EACCES']

/** A TCP port of 127.0.0.1 that nobody listens on now, from those that the kernel hands out. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** Whether this process could listen on the port of 127.0.0.1 now. */
export async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  try {
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve))
  } catch (error) {
    if (TAKEN.includes((error as NodeJS.ErrnoException).code)) return false
    throw error
  }
  await new Promise((resolve) => server.close(resolve))
  return true
}
