import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startStore, TEST_SECRET } from '../../test/store.ts'
import { deleteExpired } from './delete-expired.ts'
import { rotateSigningKeys } from './tokens/signing-keys.ts'

test('deletes what has expired and leaves everything that is still usable', async (t) => {
  const store = await startStore(t)
  const { pool } = store
  const [ada, bob, eve, joe] = [await store.register(), await store.register(), await store.register(), await store.register()]
  await store.call('POST', '/auth/refresh', { body: { refresh_token: ada.refreshToken } })
  for (const { email } of [ada, bob]) await store.call('POST', '/auth/password-reset', { body: { email } })
  await rotateSigningKeys(pool, TEST_SECRET)
  await rotateSigningKeys(pool, TEST_SECRET)
  await pool.query(
    `insert into pending_registrations (token_hash, email, password_hash, expires_at)
    values ('a', 'a@example.com', 'x', now() - interval '1 second'), ('b', 'b@example.com', 'x', now() + interval '1 hour')`,
  )
  await pool.query(
    `insert into email_changes (user_id, old_email, new_email, notice_token_hash, requested_at, expires_at)
    values ($1, 'a', 'a@new.example', 'a', now(), now() - interval '1 second'), ($1, 'a', 'b@new.example', 'b', now(), now() + interval '1 hour')`,
    [ada.id],
  )
  await pool.query(
    `insert into account_mails (mail_id, encrypted, expires_at, receiver)
    values (gen_random_uuid(), 'x', now() - interval '25 hours', 'old'), (gen_random_uuid(), 'x', now() - interval '23 hours', 'late')`,
  )
  await pool.query(`insert into rate_limits values ('old', 1, 1), ('new', 1, extract(epoch from now()) * 1000 + 60000)`)
  await pool.query(`update sessions set last_used_at = now() - interval '32 days' where user_id = $1`, [bob.id])
  await pool.query(`update sessions set revoked_at = now() - interval '8 days' where user_id = $1`, [eve.id])
  await pool.query(`update sessions set revoked_at = now() where user_id = $1`, [joe.id])
  await pool.query(`update refresh_tokens set expires_at = now() - interval '2 days' where rotated_at is not null`)
  await pool.query(`update password_resets set expires_at = now() - interval '1 second' where user_id = $1`, [bob.id])
  await pool.query(
    `update signing_keys set retired_at = now() - interval '2 days'
    where id = (select id from signing_keys where retired_at is not null order by created_at desc limit 1)`,
  )
  await pool.query(
    `update session_revocations set revoked_at = now() - interval '1 hour', last_issued_at = now() - interval '1 hour'
    where session_id = (select id from sessions where user_id = $1)`,
    [eve.id],
  )

  await Promise.all([deleteExpired(pool), deleteExpired(pool)])
  const { rows } = await pool.query(
    `select
      array(select user_id from sessions order by user_id) as sessions,
      (select count(*) from refresh_tokens) as tokens,
      array(select user_id from password_resets) as resets,
      array(select email from pending_registrations) as pending,
      array(select new_email from email_changes) as changes,
      array(select receiver from account_mails where encrypted = 'x') as mails,
      array(select key from rate_limits) as limits,
      (select count(*) from signing_keys) as keys,
      (select count(*) from session_revocations) as revocations`,
  )
  assert.deepEqual(rows, [
    {
      sessions: [ada.id, joe.id].sort(),
      tokens: 2,
      resets: [ada.id],
      pending: ['b@example.com'],
      changes: ['b@new.example'],
      mails: ['late'],
      limits: ['new'],
      keys: 2,
      // The revocations of Joe, and of Bob, whose idle session was deleted without being revoked.
      revocations: 2,
    },
  ])
  await ada.ok('GET', '/me')
})

test('deletes many rows in statements of at most a thousand, and a table that fails keeps no other one from being cleaned', async (t) => {
  const { pool } = await startStore(t)
  await pool.query(`insert into rate_limits select 'old ' || n, 1, 1 from generate_series(1, 2500) as n`)
  await pool.query(
    `create function fail() returns trigger language plpgsql as $$ begin raise 'a damaged row'; end $$;
    create trigger fail before delete on oidc_codes for each statement execute function fail()`,
  )
  const deleted: number[] = []
  const query = pool.query.bind(pool) as (statement: { text: string }) => Promise<{ rowCount: number | null }>
  t.mock.method(pool, 'query', (async (statement: { text: string }) => {
    const result = await query(statement)
    if (/^\s*delete from "?rate_limits/.test(statement.text)) deleted.push(result.rowCount ?? 0)
    return result
  }) as never)
  await assert.rejects(deleteExpired(pool), /a damaged row/)
  assert.deepEqual(deleted, [1_000, 1_000, 500, 0])
})
