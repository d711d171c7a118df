import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { isFree } from '../src/db/embedded/free-port.ts'

// Below what most kernels hand out to outgoing connections (Linux from 32768, others from 49152, RFC 6335). Such a
// connection could take a port in the moment between finding it free and listening on it, or while a server restarts.
const FIRST = 20_000
const END = 32_768
const BLOCK = 64

let next = 0
let blockEnd = 0

/** A TCP port of 127.0.0.1 that no process listens on now, and that this process does not get again soon. */
export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1)
  return port
}

/** Ports in a row, such as those that the processes of one API count upwards from its first. */
export async function freePorts(count: number): Promise<number[]> {
  for (let tries = FIRST; tries < END; tries++) {
    if (next + count > blockEnd) await claimBlock()
    const ports = Array.from({ length: count }, (_, index) => next + index)
    next += count
    const areFree = await Promise.all(ports.map(isFree))
    if (areFree.every(Boolean)) return ports
  }
  throw new Error(`no ${count} ports in a row from ${FIRST} to ${END} are free`)
}

/**
 * Claims ports for this process until it ends, by listening on the first of them: no other test process is told one
 * of these.
 */
async function claimBlock(): Promise<void> {
  const blocks = Math.floor((END - FIRST) / BLOCK)
  const start = randomInt(blocks)
  for (let tries = 0; tries < blocks; tries++) {
    const first = FIRST + ((start + tries) % blocks) * BLOCK
    const guard = createServer().listen(first, '127.0.0.1').unref()
    const isClaimed = await once(guard, 'listening').then(
      () => true,
      () => false,
    )
    if (!isClaimed) continue
    next = first + 1
    blockEnd = first + BLOCK
    return
  }
  throw new Error(`every block of ports from ${FIRST} to ${END} is claimed`)
}
