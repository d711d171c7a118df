import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { assertProblem, faults } from '../../test/problem.ts'
import { startSmtpServer, type TestSmtpServer } from '../../test/smtp-server.ts'
import { type StoreOverrides, startStore, type TestStore } from '../../test/store.ts'

const PASSWORD = 'a long enough passphrase'

async function startMailingStore(t: TestContext, overrides: StoreOverrides = {}) {
  const smtp = await startSmtpServer(t)
  const store = await startStore(t, { roles: ['api', 'stream', 'email'], smtpUrl: smtp.url, ...overrides })
  return { store, smtp }
}

const register = (store: TestStore, body: object, acceptLanguage?: string) =>
  store.call('POST', '/auth/register', {
    body: { email: `${crypto.randomUUID()}@example.com`, password: PASSWORD, ...body },
    ...(acceptLanguage === undefined ? {} : { headers: { 'accept-language': acceptLanguage } }),
  })

const mailTo = (smtp: TestSmtpServer, address: string, count = 1) =>
  eventually(async () => smtp.mails.filter(({ to }) => JSON.stringify(to).includes(address))[count - 1] ?? false, {
    what: `mail ${count} to ${address}`,
  })

async function order(store: TestStore, token: string): Promise<string> {
  const { id } = await store.addProduct({ amount: 123_450 })
  const shipping_address = { name: 'Ada', line1: 'Gartenweg 1', city: 'Wien', postal_code: '1010', country: 'AT' }
  const answer = await store.ok('POST', '/orders', { token, body: { items: [{ product_id: id, quantity: 1 }], shipping_address } })
  return answer.id
}

test("an account has the language that it requests, otherwise the browser's, otherwise none; its owner can change it", async (t) => {
  const store = await startStore(t)
  const languageOf = async (body: object, header?: string) => (await register(store, body, header)).json.user.language
  assert.deepEqual(
    [
      await languageOf({ language: 'es' }, 'de'),
      await languageOf({}, 'fr-CH, de;q=0.5'),
      await languageOf({}, 'it'),
      await languageOf({}),
      await languageOf({}, ';;q='.repeat(256)),
    ],
    ['es', 'fr', null, null, null],
  )
  const [{ json: ada }, { json: bob }] = [await register(store, { language: 'de', name: 'Ada' }), await register(store, {}, 'de')]
  const change = (body: object) => store.call('PATCH', '/me', { token: ada.access_token, body })
  assert.deepEqual([(await change({ language: 'fr' })).json.language, (await change({})).json.language], ['fr', 'fr'])
  assert.deepEqual((await change({ name: 'Ada King' })).json.language, 'fr')
  assert.deepEqual([(await change({ language: null })).json.language, (await change({ language: 'es' })).json.name], [null, 'Ada King'])
  assert.equal((await store.ok('GET', '/me', { token: ada.access_token })).language, 'es')
  assert.equal((await store.ok('GET', '/me', { token: bob.access_token })).language, 'de', 'another account')
  assert.equal((await change({ language: '' })).json.language, null, 'an empty field of a form')
  for (const language of ['it', 'de-AT', 'DE', 7, ['de']]) {
    for (const answer of [await change({ language }), await register(store, { language })]) {
      assert.deepEqual([...new Set(faults(assertProblem(answer, 422, 'invalid_body', String(language))))], ['#/language'])
    }
  }
})

test("order mails use the account's language at the time of sending, for amounts too, and otherwise the store's", async (t) => {
  const { store, smtp } = await startMailingStore(t, { defaultLanguage: 'fr', mailLocale: 'de-AT' })
  const [{ json: ada }, { json: bob }] = [await register(store, {}, 'de'), await register(store, {})]
  const orderId = await order(store, ada.access_token)
  await order(store, bob.access_token)
  const german = await mailTo(smtp, ada.user.email)
  assert.match(german.subject ?? '', /^Wir haben Ihre Bestellung \d+ erhalten$/)
  assert.match(german.text ?? '', /^Guten Tag,\n[\s\S]*Summe: €\u00a01\.234,50\n|Summe: €\u00a01\u00a0234,50\n/)
  const french = await mailTo(smtp, bob.user.email)
  assert.match(french.subject ?? '', /^Nous avons bien reçu votre commande \d+$/)
  assert.match(french.text ?? '', /Total\u00a0: 1\u202f234,50\u00a0€\n/)
  await store.call('PATCH', '/me', { token: ada.access_token, body: { language: 'es' } })
  await store.ok('POST', `/orders/${orderId}/cancel`, { token: ada.access_token })
  assert.match((await mailTo(smtp, ada.user.email, 2)).subject ?? '', /^Su pedido \d+ está cancelado$/)
})

test("account mails use the account's language, and before the account exists the registration's", async (t) => {
  const { store, smtp } = await startMailingStore(t, { isEmailVerificationRequired: true })
  const email = `${crypto.randomUUID()}@example.com`
  assert.equal((await register(store, { email, language: 'de' }, 'fr')).status, 202)
  const verification = await mailTo(smtp, email)
  assert.equal(verification.subject, 'Bitte bestätigen Sie Ihre E-Mail-Adresse')
  const token = /^[A-Za-z0-9_-]{43}$/m.exec(verification.text ?? '')?.[0]
  const json = await store.ok('POST', '/auth/verify-email', { body: { token, password: PASSWORD } })
  assert.equal(json.user.language, 'de')
  await register(store, { email, language: 'es' })
  assert.equal((await mailTo(smtp, email, 2)).subject, 'Sie haben bereits ein Kundenkonto', 'in the language of its owner')
  await store.call('PATCH', '/me', { token: json.access_token, body: { language: 'fr' } })
  await store.call('POST', '/auth/password-reset', { body: { email }, headers: { 'accept-language': 'es' } })
  assert.equal((await mailTo(smtp, email, 3)).subject, 'Choisissez un nouveau mot de passe')
})
