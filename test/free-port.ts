import { randomInt } from 'node:crypto'
import { isFree } from '../src/db/embedded/free-port.ts'

// Below what most kernels hand out to outgoing connections (Linux from 32768, others from 49152, RFC 6335). Such a connection could take
// a port in the moment between finding it free and listening on it, or while a server restarts.
const FIRST = 20_000
const END = 32_768

// Continues from one to the next, so that a server which restarts does not lose its port to another of the same test.
let next = randomInt(FIRST, END)

/** A TCP port of 127.0.0.1 that nobody listens on now, and that this process does not get again soon. */
export async function freePort(): Promise<number> {
  for (let tries = FIRST; tries < END; tries++) {
    const port = next
    next = port + 1 < END ? port + 1 : FIRST
    if (await isFree(port)) return port
  }
  throw new Error(`no port from ${FIRST} to ${END - 1} is free`)
}
