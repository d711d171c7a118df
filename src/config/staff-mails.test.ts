import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readConfig, readEnvironment } from '../config.ts'

test("the staff has one to ten addresses, each once, and gets mails at once in the shop's language unless set otherwise", () => {
  assert.equal(readConfig({ STAFF_MAIL_ORDERS: 'hourly' }).staffMails, null)
  assert.deepEqual(readConfig({ STAFF_MAIL: ' a@shop.example, b@läden.example,a@shop.example', DEFAULT_LANGUAGE: 'fr' }).staffMails, {
    ...{ to: ['a@shop.example', 'b@xn--lden-loa.example'], orders: 'at_once', language: 'fr' },
  })
  const given = { STAFF_MAIL: 'a@shop.example', STAFF_MAIL_ORDERS: 'never', STAFF_MAIL_LANGUAGE: 'es', DEFAULT_LANGUAGE: 'fr' }
  assert.deepEqual(readConfig(given).staffMails, { to: ['a@shop.example'], orders: 'never', language: 'es' })
})

test('refuses an invalid staff address and names it', () => {
  const eleven = Array.from({ length: 11 }, (_, index) => `a${index}@shop.example`).join(',')
  for (const STAFF_MAIL of ['nope', 'a@shop.example,', 'Staff <a@shop.example>', 'a@shop.example b@shop.example', eleven]) {
    const { problems } = readEnvironment({ STAFF_MAIL })
    assert.equal(problems.length, 1, STAFF_MAIL)
    assert.match(
      problems[0] ?? '',
      /^STAFF_MAIL must be one to 10 e-mail addresses, such as orders@store\.example, separated by commas, not "/,
    )
  }
  assert.match(
    readEnvironment({ STAFF_MAIL_LANGUAGE: 'it' }).problems.join(),
    /^STAFF_MAIL_LANGUAGE must be one of en, de, fr, es, not "it"$/,
  )
})
