import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { makeDataFolder, serverProcesses } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { CLIENTS, startClients } from './keep-alive-clients.ts'
import { NO_TERMINAL, startInTerminal } from './terminal.ts'

const CTRL_C = '\x03'
/** More by hand: the suite's few show what is wrong most of the time. */
const ROUNDS = Number(process.env.TERMINAL_ROUNDS ?? 1)

const folder = makeDataFolder({ after })

for (const command of ['npm start', './storefront serve', 'node bin/storefront.mjs serve']) {
  test(`Ctrl-C under load ends \`${command}\` in order, cuts no request and leaves no server`, { skip: NO_TERMINAL }, async (t) => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const store = await startInTerminal(t, command, { DATA_DIR: folder.path, LOG_FORMAT: 'json' })
      const clients = startClients(store.port)
      await eventually(async () => clients.count.answered > CLIENTS)
      store.type(CTRL_C)
      const [status] = await store.ended
      assert.equal(status, 0, store.lines.slice(-5).join('\n'))
      assert.ok(store.lines.some((line) => line.includes('"msg":"stopping"')))
      assert.ok(!store.lines.some((line) => line.includes('did not stop in time')))
      await clients.done
      assert.equal(clients.count.cut, 0, JSON.stringify(clients.count))
      assert.deepEqual(serverProcesses(folder.path), [])
    }
  })
}
