import assert from 'node:assert/strict'
import { PassThrough, type Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { startStore } from '../../../test/store.ts'
import { importStream } from './import-stream.ts'

const LOGGER = { error: () => {}, info: () => {}, warn: () => {} }
const row = (index: number) => `S-${index},Name,Things,1.00\n`

test('an import that takes too long ends with the last line reached, and lines with a result are stored', async (t) => {
  const store = await startStore(t)
  const auditContext = { actor: { type: 'system', id: null }, action: 'import', requestId: null } as const
  let ended = 0
  const importOf = (source: AsyncIterable<Uint8Array>, remainingMs: number): Readable =>
    importStream(store.pool, source, {
      ...{ format: 'csv', encoding: undefined, currency: 'EUR', remainingMs, logger: LOGGER, isBrokenOff: () => false, auditContext },
      onEnd: async () => void ended++,
    })
  const slow = new PassThrough()
  slow.write(`sku,name,category,price\n${Array.from({ length: 700 }, (_, index) => row(index)).join('')}S-700,Na`)
  const results = (await text(importOf(slow, 4_000))).trim().split('\n')
  const last = JSON.parse(results.pop() ?? '')
  assert.deepEqual([last.code, last.line, results.length], ['import_too_slow', 501, 500])
  assert.match(last.error, /the import was cut: .* line 501 is the last that has a result; send the following ones again/)
  assert.equal(ended, 1)
  const { rows } = await store.pool.query<{ n: number }>('select count(*) as n from products')
  assert.equal(rows[0]?.n, 500)

  const silent = JSON.parse(await text(importOf(new PassThrough(), 10)))
  assert.deepEqual([silent.code, silent.line], ['import_too_slow', 0])

  async function* broken(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(`sku,name,category,price\n${row(1)}`)
    throw new Error('disk')
  }
  const failed = JSON.parse(await text(importOf(broken(), 60_000)))
  assert.deepEqual([failed.code, failed.line], ['internal', 0])
})
