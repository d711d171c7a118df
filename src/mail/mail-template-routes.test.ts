import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, type TestContext, test } from 'node:test'
import pino from 'pino'
import { assertProblem, faults } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'
import { makeTestFolder } from '../../test/test-folder.ts'
import { TemplateError } from './templates.ts'

const store = await startStore({ after }, { mailLocale: 'de-AT', defaultLanguage: 'de', currency: 'EUR' })
const operator = await registerOperator(store)

function makeFolder(t: TestContext, files: Record<string, string>): string {
  const folder = makeTestFolder(t, 'storefront-templates-')
  for (const inner of ['account', 'fr']) mkdirSync(join(folder, inner))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return folder
}

test('lists every template, and previews each with an invented order', async () => {
  const json = await operator.ok('GET', '/admin/mail-templates')
  const names = json.data.map(({ name }: { name: string }) => name)
  assert.deepEqual(names, [
    ...['created', 'confirmed', 'shipped', 'delivered', 'cancelled', 'returned'],
    ...['amended', 'readdressed'],
    ...['part_shipped', 'part_cancelled', 'part_returned'],
    ...['verify_email', 'reset_password', 'already_registered', 'password_changed', 'sign_in_linked', 'sign_in_unlinked'],
    ...['second_factor_added', 'second_factor_removed', 'second_factor_failed', 'recovery_code_used', 'operator_invited'],
    ...['confirm_email', 'address_in_use', 'email_change_requested', 'email_changed', 'email_change_reverted'],
    ...['staff_orders', 'staff_sold_out', 'staff_failed_mails'],
  ])
  assert.ok(json.data.every(({ source, own_files }: Record<string, unknown>) => source === 'built_in' && String(own_files) === ''))
  const subjects = new Set()
  for (const name of names) {
    const shown = await operator.ok('GET', `/admin/mail-templates/${name}`)
    subjects.add(shown.rendered.subject)
    const hasAmounts =
      name === 'staff_orders' || (shown.kind === 'order' && !['readdressed', 'part_shipped', 'part_returned'].includes(name))
    assert.deepEqual([shown.language, shown.locale], ['de', hasAmounts ? 'de-AT' : null])
    assert.match(shown.rendered.html, /^<!doctype html>/)
    assert.ok(!shown.rendered.text.includes('{{'))
  }
  assert.equal(subjects.size, names.length)
})

test('previews a template in the requested language and amount format, and refuses invalid ones', async () => {
  const preview = (locale: string) => operator.ok('GET', `/admin/mail-templates/created?locale=${locale}`)
  const [english, german, japanese] = [await preview('en'), await preview('de'), await preview('ja-JP')]
  assert.ok(english.rendered.text.includes('Summe: €1,260.30'))
  assert.ok(german.rendered.text.includes('Summe: 1.260,30\u00a0€'))
  assert.ok(japanese.rendered.html.includes('€1,260.30'))
  assert.deepEqual([english.locale, german.locale, japanese.locale], ['en', 'de', 'ja-JP'])
  assert.match(
    (await operator.ok('GET', '/admin/mail-templates/created')).rendered.text,
    /Summe: €\u00a01\.260,30|Summe: €\u00a01\u00a0260,30/,
  )
  const french = await operator.call('GET', '/admin/mail-templates/created?language=fr')
  assert.deepEqual([french.json.language, french.json.locale], ['fr', 'fr'])
  assert.match(french.json.rendered.text, /^Bonjour Ada Lovelace,[\s\S]*Total\u00a0: 1\u202f260,30\u00a0€\n/)
  assert.match(french.json.rendered.html, /<html lang="fr">/)
  const reset = await operator.call('GET', '/admin/mail-templates/reset_password?language=es&locale=es-MX')
  assert.deepEqual([reset.json.rendered.subject, reset.json.locale], ['Establezca una contraseña nueva', null])
  for (const language of ['it', 'de-AT', 'DE', '']) {
    const problem = assertProblem(
      await operator.call('GET', `/admin/mail-templates/created?language=${language}`),
      400,
      'invalid_query',
      language,
    )
    assert.deepEqual(faults(problem), ['language'])
  }
  for (const locale of ['x', 'de_AT', 'zz', '%3Cscript%3E', 'a'.repeat(36), '']) {
    const problem = assertProblem(
      await operator.call('GET', `/admin/mail-templates/created?locale=${locale}`),
      400,
      'invalid_query',
      locale,
    )
    assert.deepEqual(faults(problem), ['locale'])
  }
  for (const name of ['refunded', 'header', 'constructor', '..%2Fcreated', 'account%2Fverify_email']) {
    assertProblem(await operator.call('GET', `/admin/mail-templates/${name}`), 404, 'not_found', name)
  }
})

test("a process without the role email previews the shop's own templates", async (t) => {
  const mailTemplates = makeFolder(t, {
    'created.txt.mustache': 'Ihre Bestellung {{number}}\n\nGuten Tag {{customer}}\n{{> order}}',
    'account/footer.html.mustache': '<p>Die Filiale</p>',
    'fr/shipped.txt.mustache': 'Votre colis {{number}}\n\n{{> order}}',
  })
  const { call } = await startSecondProcess(t, store, { mailTemplates })
  const { json } = await call('GET', '/admin/mail-templates', { token: operator.token })
  const ownOf = (template: string) => json.data.find(({ name }: { name: string }) => name === template)
  assert.deepEqual([ownOf('created').source, ownOf('created').own_files], ['shop', ['created.txt.mustache']])
  assert.equal(ownOf('confirmed').source, 'built_in')
  assert.deepEqual(ownOf('shipped').own_files, ['fr/shipped.txt.mustache'])
  assert.deepEqual(ownOf('verify_email').own_files, ['account/footer.html.mustache'])
  assert.equal(
    (await call('GET', '/admin/mail-templates/created', { token: operator.token })).json.rendered.subject,
    'Ihre Bestellung 100042',
  )
  assert.match((await call('GET', '/admin/mail-templates/reset_password', { token: operator.token })).json.rendered.html, /Die Filiale/)
  const subjectOf = async (name: string, language: string) =>
    (await call('GET', `/admin/mail-templates/${name}?language=${language}`, { token: operator.token })).json.rendered.subject
  assert.deepEqual(
    [await subjectOf('shipped', 'fr'), await subjectOf('shipped', 'es'), await subjectOf('created', 'es')],
    ['Votre colis 100042', 'Su pedido 100042 está en camino', 'Ihre Bestellung 100042'],
  )
})

test('a process that cannot use the templates logs the reason and answers everything else, but does not start if it sends mails', async (t) => {
  const mailTemplates = join(tmpdir(), 'no-such-folder')
  const warnings: string[] = []
  const logger = pino({ level: 'warn' }, { write: (line: string) => void warnings.push(JSON.parse(line).reason) })
  const { call } = await startSecondProcess(t, store, { mailTemplates, logger })
  assert.ok(warnings.includes(`MAIL_TEMPLATES: ${mailTemplates} is not a folder`))
  assertProblem(await call('GET', '/admin/mail-templates', { token: operator.token }), 503, 'unavailable')
  assertProblem(await call('GET', '/admin/mail-templates/created', { token: operator.token }), 503, 'unavailable')
  const [userId, orderId] = [crypto.randomUUID(), crypto.randomUUID()]
  await store.pool.query(
    `insert into email_deliveries (event_id, order_id, user_id, event_type, status) values ($1, $2, $3, 'storefront.order.created', 'sent')`,
    [`${orderId}.1`, orderId, userId],
  )
  const { status, json } = await call('GET', `/admin/mails/${orderId}.1`, { token: operator.token })
  assert.deepEqual([status, json.rendered], [200, null])
  await assert.rejects(startSecondProcess(t, store, { mailTemplates, roles: ['api', 'email'] }), TemplateError)
})
