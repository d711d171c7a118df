import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { explainConnection, explainRefusal } from './connection-refusal.ts'
import { DISK_FULL, READ_ONLY_TRANSACTION, TOO_MANY_CONNECTIONS } from './sql-state.ts'

function databaseError(code: string, message: string): pg.DatabaseError {
  return Object.assign(new pg.DatabaseError(message, message.length, 'error'), { code, severity: 'ERROR' })
}

test('reports a full database disk and a full max_connections as such, not as an unavailable server', () => {
  const full = databaseError(DISK_FULL, 'could not extend file "base/5/16401": No space left on device')
  assert.equal(
    explainConnection(full, 'DATABASE_URL'),
    'the database cannot be used: could not extend file "base/5/16401": No space left on device; make room on the disk of its server',
  )
  const busy = databaseError(TOO_MANY_CONNECTIONS, 'sorry, too many clients already')
  assert.equal(explainRefusal(busy, 'DATABASE_URL'), null, 'a moment later there may be a free one')
  const limited = databaseError(TOO_MANY_CONNECTIONS, 'too many connections for database "shop"')
  assert.match(
    explainRefusal(limited, 'DATABASE_URL') ?? '',
    /^the database cannot be used: too many connections for database "shop"; raise/,
  )
  const standby = databaseError(READ_ONLY_TRANSACTION, 'the server is a standby that is not promoted')
  assert.equal(explainConnection(standby, 'DATABASE_URL'), 'the database in DATABASE_URL is a standby: set the address of its primary')
  assert.match(explainConnection(busy, 'DATABASE_URL') ?? '', /; raise max_connections, or .*DATABASE_POOL_SIZE/)
})
