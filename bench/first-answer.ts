// The time from the start of `npm start` to the first page of products, beside PostgreSQL alone and an empty Node
// process.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { dataFolder } from '../src/db/embedded/data-folder.ts'
import { freePort } from '../src/db/embedded/free-port.ts'
import { changeOwner, chooseLauncher } from '../src/db/embedded/postgres-launcher.ts'
import { type Cleanup, withCleanup } from '../test/cleanup.ts'
import { nowMs } from './rig/clock.ts'
import { makeFolder, startAsInstalled } from './rig/installed-store.ts'
import { inTurns, type Row, readOptions } from './row.ts'

const NEW_CLUSTER = [
  '--username=postgres',
  '--auth=trust',
  '--encoding=UTF8',
  '--locale=C',
  '--locale-provider=builtin',
  '--builtin-locale=C.UTF-8',
  '--data-checksums',
]

export async function run(args: string[]): Promise<Row[]> {
  const { rounds } = readOptions(args, {})
  const rows: Row[] = []
  await withCleanup(async (cleanup) => {
    const used = await startAsInstalled(cleanup)
    await used.stop()
    rows.push({
      work: 'first answer, existing folder',
      heldAgainst: 'bare PostgreSQL start, and an empty Node',
      goal: { atMost: 1.5 },
      unit: 'ms',
      rounds: await inTurns(
        rounds,
        () => storeStart(cleanup, used.dataDir),
        async () => (await postgresStart(dataFolder(used.dataDir).cluster)) + (await emptyNode()),
      ),
    })
    rows.push({
      work: 'first answer, empty folder',
      heldAgainst: 'bare initdb and start, and an empty Node',
      goal: { atMost: 2 },
      unit: 'ms',
      rounds: await inTurns(
        rounds,
        () => storeStart(cleanup, makeFolder(cleanup)),
        async () => (await initdbAndStart(cleanup)) + (await emptyNode()),
      ),
    })
  })
  return rows
}

async function storeStart(cleanup: Cleanup, dataDir: string): Promise<number> {
  const store = await startAsInstalled(cleanup, dataDir)
  await store.stop()
  return store.firstAnswerMs
}

async function emptyNode(): Promise<number> {
  const beganMs = nowMs()
  await promisify(execFile)(process.execPath, ['-e', '0'])
  return nowMs() - beganMs
}

async function initdbAndStart(cleanup: Cleanup): Promise<number> {
  const parent = makeFolder(cleanup)
  const cluster = `${parent}/postgres`
  const beganMs = nowMs()
  const launcher = chooseLauncher(cluster)
  mkdirSync(`${parent}/new`)
  if (launcher.owner !== null) changeOwner(`${parent}/new`, launcher.owner)
  const [program = '', ...args] = launcher.wrap(
    [launcher.program('initdb'), `--pgdata=${parent}/new/cluster`, ...NEW_CLUSTER],
    `${parent}/new`,
  )
  await promisify(execFile)(program, args, { ...launcher.identity })
  return nowMs() - beganMs + (await postgresStart(`${parent}/new/cluster`))
}

/**
 * The time until PostgreSQL accepts connections, according to its log. It runs under the same user and in the same
 * sandbox as in the store.
 */
async function postgresStart(cluster: string): Promise<number> {
  const launcher = chooseLauncher(cluster)
  const settings = [
    `port=${await freePort()}`,
    'listen_addresses=127.0.0.1',
    'unix_socket_directories=',
    'wal_level=logical',
    'shared_buffers=128MB',
    'lc_messages=C',
  ]
  const command = [launcher.program('postgres'), '-D', cluster, ...settings.flatMap((setting) => ['-c', setting])]
  const [program = '', ...args] = launcher.wrap(command, cluster)
  const beganMs = nowMs()
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'], ...launcher.identity })
  for await (const line of createInterface(child.stderr)) if (line.includes('ready to accept connections')) break
  const tookMs = nowMs() - beganMs
  const exit = once(child, 'exit')
  child.kill('SIGINT')
  await exit
  return tookMs
}
