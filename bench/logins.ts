// The number of logins a second, beside bare argon2id on all cores, and the pages that are read meanwhile.
import { availableParallelism } from 'node:os'
import { withCleanup } from '../test/cleanup.ts'
import type { BareHashes } from './logins/bare-argon2.ts'
import { startChild } from './rig/child.ts'
import type { HttpLoad } from './rig/http-load.ts'
import { loadHttp } from './rig/load-http.ts'
import { gettingConnections, register } from './rig/shop.ts'
import { openStore } from './rig/store.ts'
import { inTurns, type Row, readOptions } from './row.ts'

const LISTS_PER_SECOND = 200
const LIST_CONNECTIONS = 32
const credentials = { email: 'bench@example.com', password: 'a long enough passphrase' }

export async function run(args: string[]): Promise<Row[]> {
  const { rounds, isQuick } = readOptions(args, {})
  const seconds = isQuick ? 2 : 4
  const atOnce = 4 * availableParallelism()
  const rows: Row[] = []
  await withCleanup(async (cleanup) => {
    const store = await openStore(cleanup)
    const { port } = await store.start('api')
    await register(port, credentials)
    const [client, reader] = [startChild(cleanup, 'rig/http-load.ts'), startChild(cleanup, 'rig/http-load.ts')]
    const bare = startChild(cleanup, 'logins/bare-argon2.ts', { UV_THREADPOOL_SIZE: String(availableParallelism()) })
    const logins: HttpLoad = {
      ...{ port, warmUpSeconds: 0.5, seconds, status: 200 },
      connections: Array.from({ length: atOnce }, () => ({
        head: 'POST /auth/login HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n',
        bodies: [JSON.stringify(credentials)],
      })),
    }
    const lists: HttpLoad = {
      ...{ port, warmUpSeconds: 0.5, seconds, status: 200, perSecond: LISTS_PER_SECOND },
      connections: gettingConnections(LIST_CONNECTIONS, '/products?limit=20'),
    }
    const hashes = { atOnce, seconds, password: credentials.password } satisfies BareHashes
    await loadHttp(client, logins)
    await loadHttp(reader, lists)
    rows.push({
      work: `logins, ${atOnce} at once`,
      heldAgainst: `bare argon2id on ${availableParallelism()} cores`,
      goal: { atLeast: 0.9 },
      unit: 'logins/s',
      rounds: await inTurns(
        rounds,
        async () => (await loadHttp(client, logins)).perSecond,
        () => bare.ask<number>(hashes),
      ),
    })
    rows.push({
      work: `p99 of \`GET /products\` at ${LISTS_PER_SECOND}/s while ${atOnce} customers log in all the time`,
      heldAgainst: 'the same without logins',
      goal: { atMost: 3 },
      unit: 'ms',
      rounds: await inTurns(
        rounds,
        async () => (await Promise.all([loadHttp(reader, lists), loadHttp(client, { ...logins, seconds: seconds + 0.5 })]))[0].p99,
        async () => (await loadHttp(reader, lists)).p99,
      ),
      note: 'An open loop: latency counts from when a request was due.',
    })
  })
  return rows
}
