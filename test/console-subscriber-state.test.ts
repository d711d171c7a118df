import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stateOfSubscriber } from '../console/screens/subscriber-state.ts'

test('a subscriber that no process has ever been is no fault; one that is gone or fails is', () => {
  assert.equal(stateOfSubscriber({ is_active: false, position: null, state: null }), 'unused')
  assert.equal(stateOfSubscriber({ is_active: false, position: 7, state: null }), 'absent')
  assert.equal(stateOfSubscriber({ is_active: false, position: null, state: 'stopped' }), 'absent', 'a process has the role')
  assert.equal(stateOfSubscriber({ is_active: false, position: null, state: 'failing' }), 'failing')
  assert.equal(stateOfSubscriber({ is_active: true, position: 7, state: 'failing' }), 'failing')
  assert.equal(stateOfSubscriber({ is_active: true, position: null, state: null }), 'active')
})
