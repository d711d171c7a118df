import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { ROLES } from '../src/config.ts'
import { dataFolder } from '../src/db/embedded/data-folder.ts'
import { startEmbeddedPostgres } from '../src/db/embedded/embedded-postgres.ts'
import { freePort } from '../test/free-port.ts'
import { createFrontDoor } from './front-door.ts'

const USAGE = `usage: deploy/local-cluster.sh [--port 3000] [--data DIR] [--catalogue FILE] [--chaos]

  --port       where the store answers
  --data       keeps everything there; without it a temporary folder is used, and removed at the end
  --catalogue  imports products first (NDJSON or CSV)
  --chaos      from the first order on: kills (kill -9) one process of each kind in turn, the active one before its
               standby, and starts it again. Also pauses one of each kind for twelve seconds (kill -STOP)

DATABASE_URL names a PostgreSQL with wal_level=logical; without it one is started. Other settings are passed on.`

const BIN = fileURLToPath(new URL('../bin/storefront.mjs', import.meta.url))
const WORKER_ROLES = ROLES.filter((role) => role !== 'api')
const RESTART_MS = 2_000
const CHAOS_PAUSE_MS = 4_000
const SIGSTOP_MS = 12_000
const STOP_MS = 10_000

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '3000' },
    data: { type: 'string' },
    catalogue: { type: 'string' },
    chaos: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
if (values.help) {
  console.log(USAGE)
  process.exit()
}

const folder = values.data ?? mkdtempSync(join(tmpdir(), 'storefront-cluster-'))
mkdirSync(join(folder, 'logs'), { recursive: true })
const stopping = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort())

/** A process that is restarted when it ends, until the cluster stops. */
class Member {
  readonly name: string
  readonly #command: string[]
  readonly #env: NodeJS.ProcessEnv
  #child: ChildProcess | null = null
  /** When it last said that it is the active one. */
  activeSince = 0

  constructor(name: string, command: string[], env: NodeJS.ProcessEnv = process.env) {
    this.name = name
    this.#command = command
    this.#env = env
  }

  start(): void {
    const [program = '', ...args] = this.#command
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: this.#env })
    this.#child = child
    console.log(`${this.name}: pid ${child.pid}`)
    for (const stream of [child.stdout, child.stderr]) {
      createInterface(stream).on('line', (line) => {
        appendFileSync(join(folder, 'logs', `${this.name}.log`), `${line}\n`)
        if (/"msg":"(subscriber|change stream) is active"/.test(line)) this.activeSince = Date.now()
      })
    }
    child.once('error', (error) => fail(`${this.name} cannot be started: ${error.message}`))
    child.once('exit', async (code, signal) => {
      if (stopping.signal.aborted) return
      console.log(`${this.name}: ended (${signal ?? `status ${code}`})`)
      await delay(RESTART_MS, undefined, { signal: stopping.signal }).catch(() => {})
      if (!stopping.signal.aborted) this.start()
    })
  }

  kill(signal: NodeJS.Signals): void {
    if (this.#child?.exitCode === null && this.#child.signalCode === null) this.#child.kill(signal)
  }

  async stop(): Promise<void> {
    const child = this.#child
    if (child === null || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGCONT')
    child.kill('SIGTERM')
    const impatience = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    await ended
    clearTimeout(impatience)
  }
}

function fail(reason: string): void {
  console.error(reason)
  process.exitCode = 1
  stopping.abort()
}

async function untilListening(port: number): Promise<void> {
  while (!stopping.signal.aborted) {
    const socket = connect(port, '127.0.0.1')
    const answers = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (answers) return
    await delay(100)
  }
}

async function runStorefront(env: NodeJS.ProcessEnv, ...args: string[]): Promise<void> {
  const [status] = await once(spawn(process.execPath, [BIN, ...args], { stdio: 'inherit', env }), 'exit')
  if (status !== 0) throw new Error(`storefront ${args.join(' ')} ended with status ${status}`)
}

function makeNats(ports: readonly number[]): Member[] {
  const servers = [0, 1, 2]
  const routes = servers.map((index) => `nats-route://127.0.0.1:${ports[3 + index]}`)
  return servers.map((index) => {
    const file = join(folder, `nats-${index + 1}.conf`)
    writeFileSync(
      file,
      `host: 127.0.0.1
port: ${ports[index]}
server_name: nats-${index + 1}
jetstream { store_dir: ${JSON.stringify(join(folder, `nats-${index + 1}`))} }
cluster { name: storefront, host: 127.0.0.1, port: ${ports[3 + index]}, routes: ${JSON.stringify(routes)} }
`,
    )
    return new Member(`nats-${index + 1}`, ['nats-server', '-c', file])
  })
}

/** Kills and pauses one of each kind in turn. */
async function chaos(kinds: readonly Member[][]): Promise<void> {
  const { signal } = stopping
  const pause = (ms: number) => delay(ms, undefined, { signal }).catch(() => {})
  for (let round = 0; !signal.aborted; round++) {
    for (const members of kinds) {
      // The active process; of roles whose processes are all active, another one each time.
      const active = members.toSorted((a, b) => b.activeSince - a.activeSince)[0]
      const victim = active?.activeSince ? active : members[round % members.length]
      if (signal.aborted || victim === undefined) return
      if (round % 2 === 0) {
        console.log(`chaos: kill -9 ${victim.name}`)
        victim.kill('SIGKILL')
      } else {
        console.log(`chaos: pause ${victim.name}`)
        victim.kill('SIGSTOP')
        await pause(SIGSTOP_MS)
        victim.kill('SIGCONT')
      }
      await pause(CHAOS_PAUSE_MS)
    }
  }
}

const database =
  process.env.DATABASE_URL === undefined
    ? await startEmbeddedPostgres(dataFolder(join(folder, 'database')), {
        settings: { max_connections: '200' },
        onUnexpectedExit: fail,
      })
    : null
const members: Member[][] = []
const secretFile = join(folder, 'secret')
const frontPort = Number(values.port)
try {
  try {
    writeFileSync(secretFile, randomBytes(32).toString('base64url'), { mode: 0o600, flag: 'wx' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  const ports = await Promise.all(Array.from({ length: 8 }, freePort))
  const natsPorts = ports.slice(0, 3)
  const apiPorts = ports.slice(6)
  const settings = {
    STOREFRONT_SECRET: process.env.STOREFRONT_SECRET ?? readFileSync(secretFile, 'utf8'),
    DATABASE_URL: process.env.DATABASE_URL ?? database?.url ?? '',
    DATABASE_POOL_SIZE: '5',
    DATA_DIR: folder,
    NATS_URL: natsPorts.map((port) => `nats://127.0.0.1:${port}`).join(','),
    NATS_REPLICAS: '3',
    BASE_URL: `http://127.0.0.1:${frontPort}`,
    HOST: '127.0.0.1',
  }
  const env = { LAKE_FLUSH_SECONDS: '5', OPS_PORT: '0', RATE_LIMITS: 'off', ...process.env, ...settings }
  const settingsFile = join(folder, 'settings')
  const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${quote(value)}\n`)
  writeFileSync(settingsFile, lines.join(''), { mode: 0o600 })
  const nats = makeNats(ports)
  members.push(nats)
  for (const server of nats) server.start()
  await Promise.all(natsPorts.map(untilListening))
  await runStorefront(env, 'migrate')
  if (values.catalogue !== undefined) await runStorefront(env, 'catalogue', 'import', values.catalogue)
  for (const role of WORKER_ROLES) {
    members.push([1, 2].map((number) => new Member(`${role}-${number}`, [process.execPath, BIN, 'serve', '--role', role], env)))
  }
  const apis = apiPorts.map(
    (port, index) => new Member(`api-${index + 1}`, [process.execPath, BIN, 'serve', '--role', 'api'], { ...env, PORT: String(port) }),
  )
  members.push(apis)
  for (const member of members.slice(1).flat()) member.start()
  await Promise.all(apiPorts.map(untilListening))

  let isDisturbed = !values.chaos
  const door = createFrontDoor(apiPorts, ({ method, path }, status) => {
    if (isDisturbed || method !== 'POST' || path !== '/orders' || status !== 201) return
    isDisturbed = true
    void chaos(members)
  })
  door.listen(frontPort, '127.0.0.1')
  await once(door, 'listening')
  console.log(`the store answers at http://127.0.0.1:${frontPort}; logs, mails and lake are in ${folder}`)
  console.log(`for commands beside it: set -a; . ${settingsFile}; set +a; ./storefront …; Ctrl-C here ends everything`)
  if (!stopping.signal.aborted) await once(stopping.signal, 'abort')
  door.close()
  door.closeAllConnections()
} catch (error) {
  fail(error instanceof Error ? error.message : String(error))
} finally {
  stopping.abort()
  for (const kind of members.toReversed()) await Promise.all(kind.map((member) => member.stop()))
  await database?.stop()
  if (values.data === undefined) rmSync(folder, { recursive: true, force: true })
}
