import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { onCleanup } from '../../test/cleanup.ts'
import { eventually } from '../../test/eventually.ts'
import { freePort } from '../../test/free-port.ts'
import { readConfig } from '../config.ts'
import type { OperatorError } from '../errors.ts'
import { createWorkers } from './workers.ts'

test('a process that finds no database at its first start is restarted, and ends no other process', async (t) => {
  const config = readConfig({
    ...{ DATABASE_URL: `postgres://127.0.0.1:${await freePort()}/shop`, ROLES: 'email', OPS_PORT: 'off', LOG_LEVEL: 'silent' },
    STOREFRONT_SECRET: 'a secret that is long enough for this',
  })
  const refused: OperatorError[] = []
  const workers = createWorkers([config], pino({ level: 'silent' }), (error) => refused.push(error))
  onCleanup(t, () => workers.stop())
  const reasons = async () => (await workers.findFailing()).map(({ reason }) => reason)
  await workers.start()
  assert.deepEqual(await reasons(), ['process 2 (email) is starting'])
  // A start waits up to a minute for the database.
  await eventually(async () => /the database cannot be used/.test((await reasons()).join()), { what: 'the reason', timeoutMs: 120_000 })
  assert.deepEqual(refused, [])
})
