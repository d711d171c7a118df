import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { explainConnection } from './connection-refusal.ts'
import { DISK_FULL, TOO_MANY_CONNECTIONS } from './sql-state.ts'

function databaseError(code: string, message: string): pg.DatabaseError {
  return Object.assign(new pg.DatabaseError(message, message.length, 'error'), { code, severity: 'ERROR' })
}

test('a full disk of the database and a full max_connections are reported as that, and not as a server that is down', () => {
  const full = databaseError(DISK_FULL, 'could not extend file "base/5/16401": No space left on device')
  assert.equal(
    explainConnection(full, 'DATABASE_URL'),
    'the database cannot be used: could not extend file "base/5/16401": No space left on device; make room on the disk of its server',
  )
  const busy = databaseError(TOO_MANY_CONNECTIONS, 'sorry, too many clients already')
  assert.match(explainConnection(busy, 'DATABASE_URL') ?? '', /; raise max_connections, or .*DATABASE_POOL_SIZE/)
})
