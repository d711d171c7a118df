import { type ChildProcess, spawn } from 'node:child_process'
import { chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { debianPostgresMissing } from './debian-postgres.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { missingProgram, PROGRAM_PATH } from './programs.ts'

/** Why tests with Patroni are skipped on this machine; false where they run. Where CI is true they run or fail. */
export const patroniMissing: string | false =
  debianPostgresMissing ||
  missingProgram('patroni', 'patroni') ||
  missingProgram('etcd', 'etcd-server') ||
  missingProgram('haproxy', 'haproxy')

const NOBODY = 65_534
const VERSIONS = '/usr/lib/postgresql'

interface Node {
  name: string
  rest: number
  data: string
  /** Starts Patroni, which starts PostgreSQL. */
  start(): void
  /** Ends Patroni, PostgreSQL and its processes as a power failure does. */
  kill(): void
}

interface Member {
  name: string
  role: string
  state: string
}

export interface PatroniCluster {
  /** Address of the superuser at the proxy that leads to the primary, without a database. */
  address: string
  nodes: readonly Node[]
  addressOf(node: Node): string
  members(): Promise<Member[]>
  /** Waits for a primary among these nodes and a synchronous standby. */
  untilSynchronous(among?: readonly Node[]): Promise<Node>
  untilLeader(among: readonly Node[]): Promise<Node>
  patch(configuration: object): Promise<void>
  switchover(from: Node, to: Node): Promise<void>
}

/** Starts etcd, two nodes of Patroni in synchronous mode and haproxy in front of them, as a user without privileges. */
export async function startPatroni(t: Cleanup): Promise<PatroniCluster> {
  const folder = mkdtempSync(join(tmpdir(), 'storefront-patroni-'))
  const identity = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}
  const own = (path: string) => {
    if (identity.uid !== undefined) chownSync(path, identity.uid, identity.gid)
    return path
  }
  own(folder)
  onCleanup(t, () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
  const run = (program: string, args: string[]): ChildProcess =>
    spawn(program, args, { ...identity, cwd: folder, stdio: 'ignore', env: { PATH: PROGRAM_PATH, HOME: folder, LC_ALL: 'C.UTF-8' } })
  const [etcd, peers, proxy] = [await freePort(), await freePort(), await freePort()]
  const [client, peer] = [`http://127.0.0.1:${etcd}`, `http://127.0.0.1:${peers}`]
  const store = run('etcd', [
    ...['--data-dir', join(folder, 'etcd'), '--listen-client-urls', client, '--advertise-client-urls', client],
    ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer, '--initial-cluster', `default=${peer}`, '--unsafe-no-fsync'],
  ])
  onCleanup(t, () => void store.kill('SIGKILL'))
  await eventually(async () => (await fetch(`${client}/health`).catch(() => null))?.ok, { what: 'etcd answers' })

  const nodes: (Node & { port: number })[] = []
  for (const name of ['a', 'b']) {
    const [port, rest] = [await freePort(), await freePort()]
    const home = join(folder, name)
    mkdirSync(home)
    own(home)
    const data = join(home, 'data')
    const file = join(folder, `${name}.yml`)
    writeFileSync(file, JSON.stringify(settingsOf({ name, port, rest, etcd, home, data })))
    let patroni: ChildProcess | null = null
    const node = {
      ...{ name, rest, data, port },
      start() {
        patroni = run('patroni', [file])
      },
      kill() {
        patroni?.kill('SIGKILL')
        const postmaster = pidOf(data)
        if (postmaster === null) return
        // First the parent, which would restart or stop the others in order.
        for (const pid of [postmaster, ...childrenOf(postmaster)]) tryKill(pid)
      },
    }
    onCleanup(t, () => node.kill())
    nodes.push(node)
  }
  const [first, second] = nodes
  if (first === undefined || second === undefined) throw new Error('no nodes')
  const members = async () => {
    for (const { rest } of nodes) {
      const answer = await fetch(`http://127.0.0.1:${rest}/cluster`).catch(() => null)
      if (answer?.ok) return ((await answer.json()) as { members?: Member[] }).members ?? []
    }
    return []
  }
  const untilLeader = (among: readonly Node[]) =>
    eventually(
      async () => {
        for (const node of among) if ((await fetch(`http://127.0.0.1:${node.rest}/primary`).catch(() => null))?.ok) return node
        return undefined
      },
      { what: 'a primary', timeoutMs: 180_000 },
    )
  first.start()
  await untilLeader([first])
  second.start()

  writeFileSync(
    join(folder, 'haproxy.cfg'),
    `defaults
  mode tcp
  timeout connect 2s
  timeout client 30m
  timeout server 30m
listen primary
  bind 127.0.0.1:${proxy}
  option httpchk GET /primary
  http-check expect status 200
  default-server inter 500 fall 2 rise 1 on-marked-down shutdown-sessions
${nodes.map(({ name, port, rest }) => `  server ${name} 127.0.0.1:${port} check port ${rest}`).join('\n')}
`,
  )
  const haproxy = run('haproxy', ['-db', '-f', join(folder, 'haproxy.cfg')])
  onCleanup(t, () => void haproxy.kill('SIGKILL'))
  return {
    address: `postgres://postgres@127.0.0.1:${proxy}`,
    nodes,
    addressOf: ({ name }) => `postgres://postgres@127.0.0.1:${nodes.find((node) => node.name === name)?.port}`,
    members,
    untilLeader,
    async untilSynchronous(among = nodes) {
      await eventually(
        async () => (await members()).some(({ role, state }) => role === 'sync_standby' && /^(running|streaming)$/.test(state)),
        {
          what: 'a synchronous standby',
          timeoutMs: 180_000,
        },
      )
      return untilLeader(among)
    },
    async patch(configuration) {
      const answer = await send('PATCH', first.rest, '/config', configuration)
      if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
    },
    async switchover(from, to) {
      // Refused until the standby is known as the synchronous one.
      await eventually(async () => (await send('POST', from.rest, '/switchover', { leader: from.name, candidate: to.name })).ok, {
        what: 'a switchover',
        timeoutMs: 120_000,
      })
      await untilLeader([to])
    },
  }
}

function send(method: string, port: number, path: string, body: object): Promise<Response> {
  return fetch(`http://127.0.0.1:${port}${path}`, { method, body: JSON.stringify(body), headers: { 'content-type': 'application/json' } })
}

function settingsOf({
  name,
  port,
  rest,
  etcd,
  home,
  data,
}: Record<'port' | 'rest' | 'etcd', number> & Record<'name' | 'home' | 'data', string>) {
  const programs = readdirSync(VERSIONS).map((version) => join(VERSIONS, version, 'bin'))
  return {
    scope: 'shop',
    name,
    restapi: { listen: `127.0.0.1:${rest}`, connect_address: `127.0.0.1:${rest}` },
    etcd3: { host: `127.0.0.1:${etcd}` },
    bootstrap: {
      dcs: {
        // The shortest that Patroni takes.
        ...{ ttl: 20, loop_wait: 1, retry_timeout: 3, maximum_lag_on_failover: 1_048_576, synchronous_mode: true },
        postgresql: {
          use_pg_rewind: true,
          use_slots: true,
          parameters: {
            wal_level: 'logical',
            fsync: 'off',
            wal_log_hints: 'on',
            max_connections: 100,
            max_wal_senders: 10,
            max_replication_slots: 10,
          },
        },
      },
      initdb: [{ encoding: 'UTF8' }, { locale: 'C.UTF-8' }, 'data-checksums', 'no-sync'],
    },
    postgresql: {
      ...{ listen: `127.0.0.1:${port}`, connect_address: `127.0.0.1:${port}`, data_dir: data, pgpass: join(home, 'pgpass') },
      bin_dir: programs.sort().find((folder) => existsSync(join(folder, 'initdb'))),
      authentication: { superuser: { username: 'postgres' }, replication: { username: 'postgres' }, rewind: { username: 'postgres' } },
      parameters: { unix_socket_directories: '' },
      pg_hba: ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust'],
    },
  }
}

function pidOf(data: string): number | null {
  try {
    return Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0])
  } catch {
    return null
  }
}

/** The processes whose parent this is, from /proc. */
function childrenOf(parent: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        return Number(readFileSync(`/proc/${name}/stat`, 'utf8').split(') ').at(-1)?.split(' ')[1]) === parent
      } catch {
        return false
      }
    })
    .map(Number)
}

function tryKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
