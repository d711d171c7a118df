import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { findGuessedPorts, findGuessedPortsIn } from './ports.ts'

test('no file guesses a port beside another one, because freePorts of test/free-port.ts finds several', () => {
  assert.deepEqual(findGuessedPorts(fileURLToPath(new URL('..', import.meta.url))), [])
})

test('finds the forms in which tests have guessed a port', () => {
  for (const line of [
    "createServer().listen(hung - 1, '127.0.0.1')",
    "createServer().listen(port + 1, '127.0.0.1')",
    "const env = { OPS_PORT: String(hung - 1), WEB_CONCURRENCY: '2' }",
    'const port = Number(new URL(primary.address).port) + 1',
    'const second = apiPort + 1',
  ])
    assert.deepEqual(findGuessedPortsIn('test/a.ts', line), ['test/a.ts:1'], line)
  assert.deepEqual(findGuessedPortsIn('test/a.ts', "const report = count + 1\nserver.listen(0, '127.0.0.1')"), [])
})
