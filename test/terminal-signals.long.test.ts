import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { after, type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { makeDataFolder, serverProcesses } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { CLIENTS, startClients } from './keep-alive-clients.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const CTRL_C = '\x03'
/** More by hand: the suite's few show what is wrong most of the time. */
const ROUNDS = Number(process.env.TERMINAL_ROUNDS ?? 1)

const folder = makeDataFolder({ after })
const NO_TERMINAL = spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux')
  ? false
  : 'the program script of util-linux is not on the PATH'

/** The store as somebody starts it who types the command: in a pseudo terminal, whose foreground group gets what is typed. */
async function startInTerminal(t: TestContext, command: string) {
  const port = await freePort()
  const env = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    DATA_DIR: folder.path,
    PORT: String(port),
    OPS_PORT: 'off',
    SHELL: '/bin/sh',
  }
  const child = spawn('script', ['--quiet', '--return', '--flush', '--command', `exec ${command}`, '/dev/null'], {
    cwd: ROOT,
    env,
    stdio: 'pipe',
  })
  const ended = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  const lines: string[] = []
  createInterface(child.stdout).on('line', (line) => lines.push(line))
  child.stderr.resume()
  t.after(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
    await ended
  })
  await eventually(async () => {
    assert.equal(child.exitCode, null, lines.join('\n'))
    return lines.some((line) => line.includes('Storefront answers'))
  })
  return { port, lines, ended, type: (keys: string) => void child.stdin.write(keys) }
}

// npx runs the store by a shell, which waits for its end. Debian's shell then ends itself by the SIGINT that it got as well: 130.
for (const [command, statuses] of [
  ['npm start', [0]],
  ['npx storefront serve', [0, 130]],
  ['node bin/storefront.mjs serve', [0]],
] as const) {
  test(`Ctrl-C under load ends \`${command}\` in order, cuts no request and leaves no server`, { skip: NO_TERMINAL }, async (t) => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const store = await startInTerminal(t, command)
      const clients = startClients(store.port)
      await eventually(async () => clients.count.answered > CLIENTS)
      store.type(CTRL_C)
      const [status] = await store.ended
      assert.ok((statuses as readonly (number | null)[]).includes(status), `${status}: ${store.lines.slice(-5).join('\n')}`)
      assert.ok(store.lines.some((line) => line.includes('"msg":"stopping"')))
      assert.ok(!store.lines.some((line) => line.includes('did not stop in time')))
      await clients.done
      assert.equal(clients.count.cut, 0, JSON.stringify(clients.count))
      assert.deepEqual(serverProcesses(folder.path), [])
    }
  })
}
