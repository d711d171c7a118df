import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { type Cleanup, onCleanup } from './cleanup.ts'

// A whole statement, unlike the name of a setting. A batch of orders is one statement, which commits itself.
const COMMITS = ['\0commit\0', '\vcommit\0', 'place_orders']

/** A proxy for PostgreSQL that, from `holdBackCommits` on, drops what commits, or the server's answer to it. */
export async function openCommitWire(t: Cleanup, url: string, holdsBackWhat: 'commit' | 'answer') {
  const target = new URL(url)
  let holdsBack = false
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname)
    for (const socket of [client, upstream]) socket.on('error', () => {}).on('close', () => [client, upstream].map((it) => it.destroy()))
    let isHeld = false
    client.on('data', (bytes) => {
      isHeld ||= holdsBack && COMMITS.some((statement) => bytes.includes(statement))
      if (!isHeld || holdsBackWhat === 'answer') upstream.write(bytes)
    })
    upstream.on('data', (bytes) => {
      if (!isHeld || holdsBackWhat === 'commit') client.write(bytes)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onCleanup(t, () => void server.close())
  const { port } = server.address() as AddressInfo
  return {
    url: Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(port) }).href,
    holdBackCommits() {
      holdsBack = true
    },
  }
}
