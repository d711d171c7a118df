import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OperatorError } from '../errors.ts'
import { explainListenErrors } from './explain-listen-errors.ts'

test('names the setting to change if the system cannot share a port', async () => {
  // Node.js throws this error on macOS and Windows.
  const start = () => Promise.reject(Object.assign(new Error('listen ENOTSUP'), { code: 'ENOTSUP' }))
  const service = explainListenErrors({ start, stop: async () => {} }, { host: '127.0.0.1', port: 3000 })
  await assert.rejects(
    service.start(),
    (error) => error instanceof OperatorError && /set WEB_CONCURRENCY to 2, or to 1 for a process of the API alone$/.test(error.message),
  )
})
