import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { checkEveryRole, shareChecks } from './readiness.ts'

test('requests share a recent check, even one that hangs, and later requests get a new one', async () => {
  let begun = 0
  const check = shareChecks(() => {
    begun += 1
    return begun === 1 ? new Promise(() => {}) : Promise.resolve([{ name: `check ${begun}`, reason: '' }])
  })
  const hanging = [check(), check(), check()]
  assert.equal(begun, 1)
  const [second] = await eventually(async () => {
    const answered = check()
    return !hanging.includes(answered) && answered
  })
  assert.equal(second?.name, 'check 2')
  const answers = await Promise.all(Array.from({ length: 1_000 }, check))
  assert.ok(begun <= 3, `${begun} checks`)
  for (const [answer] of answers) assert.match(answer?.name ?? '', /^check [23]$/)
})

test('the findings of the other roles stay out of a shared result', async () => {
  const check = shareChecks(async () => [{ name: 'database', reason: 'away' }])
  const watched = { subscriptions: new Map(), lake: null, mailServer: null } as unknown as Parameters<typeof checkEveryRole>[1]
  const checkAll = checkEveryRole(check, watched, { isOutdated: true })
  for (let i = 0; i < 2; i++)
    assert.deepEqual(
      (await checkAll()).map(({ name }) => name),
      ['database', 'secret'],
    )
  assert.deepEqual(await check(), [{ name: 'database', reason: 'away' }])
})
