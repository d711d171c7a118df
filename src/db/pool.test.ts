import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { type TestContext, test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { createTestDatabase } from '../../test/database.ts'
import { connectClient, createPool } from './pool.ts'

/**
 * A server that ends each session in the packet that accepts it. PostgreSQL does the same when an administrator ends
 * the session at that moment.
 */
async function startEndingServer(t: TestContext): Promise<string> {
  const fatal = Buffer.from('SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0')
  const length = Buffer.alloc(4)
  length.writeInt32BE(fatal.length + 4)
  const authenticated = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0])
  const ready = Buffer.from([0x5a, 0, 0, 0, 5, 0x49])
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => void socket.end(Buffer.concat([authenticated, ready, Buffer.from('E'), length, fatal])))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onCleanup(t, () => new Promise<void>((resolve) => void server.close(() => resolve())))
  return `postgres://storefront:none@127.0.0.1:${(server.address() as AddressInfo).port}/storefront`
}

test('a session that the server ends at once rejects without ending the process', async (t) => {
  const url = await startEndingServer(t)
  const pool = createPool({ url, size: 1, applicationName: 'test', onError: () => {} })
  onCleanup(t, () => pool.end())
  await assert.rejects(pool.query('select'))
  await assert.rejects(connectClient(url, 'test'))
})

test('a separate connection accepts a statement while another one executes, without a warning', async (t) => {
  const { url } = await createTestDatabase(t)
  const warnings: string[] = []
  const note = ({ message }: Error) => void warnings.push(message)
  process.on('warning', note)
  onCleanup(t, () => void process.off('warning', note))
  await using client = await connectClient(url, 'test')
  await Promise.all([client.query('select pg_sleep(0.1)'), client.query('select 1'), client.query('select 2')])
  // Warnings are emitted in a later turn of the event loop.
  await new Promise(setImmediate)
  assert.deepEqual(warnings, [])
})
