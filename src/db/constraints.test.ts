import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError } from '../errors.ts'
import { translateConstraint } from './constraints.ts'

test('translates the named constraints that a client can violate, and no other error', () => {
  const violation = { code: '23505', constraint: 'orders_client_reference_unique' }
  const refusal = translateConstraint(violation)
  assert.ok(refusal instanceof AppError)
  assert.equal(refusal.code, 'client_reference_taken')
  assert.equal(refusal.cause, violation)
  for (const error of [
    { ...violation, code: '42601' },
    { ...violation, constraint: 'orders_number_unique' },
    { code: '23505' },
    new Error('x'),
  ]) {
    assert.equal(translateConstraint(error), error)
  }
})
