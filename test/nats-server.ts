import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { missingProgram, PROGRAM_PATH } from './programs.ts'

const PROGRAM = 'nats-server'

/** Why a test that needs the broker is skipped; false where it runs. */
export const NO_NATS = missingProgram(PROGRAM)

export interface NatsServer {
  url: string
  port: number
  directory: string
  /** Ends the process, by default with SIGKILL. The stored messages stay. */
  end(signal?: NodeJS.Signals): Promise<void>
  /** Starts it again on the same port and messages. */
  start(): Promise<void>
  /** Deletes all stored messages. The process must not be running. */
  wipe(): void
}

/** A new NATS server with JetStream, on 127.0.0.1, ended with the test. `config` is added to its configuration file. */
export async function startNatsServer(t: Cleanup, config = ''): Promise<NatsServer> {
  const directory = mkdtempSync(join(tmpdir(), 'storefront-nats-'))
  const port = await freePort()
  const store = join(directory, 'store')
  const file = join(directory, 'nats.conf')
  writeFileSync(
    file,
    `host: 127.0.0.1\nport: ${port}\njetstream { store_dir: ${JSON.stringify(store)}, max_mem: 64MB, max_file: 4GB }\n${config}`,
  )
  let child: ChildProcess | null = null
  const server: NatsServer = {
    url: `nats://127.0.0.1:${port}`,
    port,
    directory,
    async start() {
      const started = spawn(PROGRAM, ['-c', file], { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, PATH: PROGRAM_PATH } })
      child = started
      let log = ''
      started.stderr.setEncoding('utf8').on('data', (text) => {
        log += text
      })
      await once(started, 'spawn')
      await eventually(
        async () => {
          if (started.exitCode !== null) throw new Error(`${PROGRAM} ended: ${log}`)
          return (await answers(port)) && log.includes('Server is ready')
        },
        { what: `${PROGRAM} on port ${port}`, timeoutMs: 120_000 },
      )
    },
    async end(signal = 'SIGKILL') {
      const ending = child
      child = null
      if (ending === null || ending.exitCode !== null || ending.signalCode !== null) return
      const ended = once(ending, 'exit')
      ending.kill(signal)
      await ended
    },
    wipe: () => rmSync(store, { recursive: true, force: true }),
  }
  onCleanup(t, async () => {
    await server.end()
    rmSync(directory, { recursive: true, force: true })
  })
  await server.start()
  return server
}

async function answers(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
