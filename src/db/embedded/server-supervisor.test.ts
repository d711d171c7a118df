import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Server } from './postgres-server.ts'
import { SupervisedServer } from './server-supervisor.ts'

/** A server that exits once the test calls `exit`. */
function createServer() {
  const exit = Promise.withResolvers<string>()
  const stops: string[] = []
  const stop = async (how = 'now') => void stops.push(how)
  return { exit: exit.resolve, stops, server: { url: '', unexpectedExit: exit.promise, stop } as unknown as Server }
}

test('stops a server while its restart is in progress', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const [first, second] = [createServer(), createServer()]
  const restarting = Promise.withResolvers<void>()
  const restarted = Promise.withResolvers<Server>()
  const supervised = new SupervisedServer(first.server, {
    restart() {
      restarting.resolve()
      return restarted.promise
    },
    onDown: () => {},
    onUp: () => {},
  })
  first.exit('killed')
  await new Promise(setImmediate)
  t.mock.timers.tick(10_000)
  await restarting.promise
  const stopped = supervised.stop('now')
  restarted.resolve(second.server)
  await stopped
  assert.deepEqual([first.stops, second.stops], [[], ['now']])
})
