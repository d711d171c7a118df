import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { addBuyer } from '../../test/buyers.ts'
import { startStore } from '../../test/store.ts'
import { LANGUAGES } from '../language.ts'
import { type OrderRecord, RECORD_COLUMNS, toOrderEvents } from '../orders/events.ts'
import { mailLanguages } from './mail-languages.ts'
import { createMailRenderer, hasMail, toMailContent } from './render-mail.ts'
import { createTemplateReader } from './templates.ts'

const store = await startStore({ after })
const [ada, operator] = [await store.register(), await addBuyer(store, 'admin')]
const render = createMailRenderer({ orderUrl: 'https://shop.example/order' }, createTemplateReader(null), mailLanguages('en', null))

interface Step {
  method?: 'POST' | 'PUT'
  path: string
  body: object
}
const SHIPPING: Step = { path: 'adjustments', body: { kind: 'shipping', label: 'Express', amount: { amount: 490, currency: 'EUR' } } }
const PAID: Step = { method: 'PUT', path: 'payment', body: { provider: 'stripe', reference: 'pi_1', state: 'paid' } }
const to = (status: string, reason?: string): Step => ({ path: 'transitions', body: { to: status, ...(reason && { reason }) } })

/** The mails of an order of 2 mugs at 10.00 and a pot at 5.00, in the order of its changes. */
async function mailsAfter(steps: (Step | ((mug: string) => Step))[]) {
  const [mug, pot] = [await store.addProduct({ amount: 1_000, name: 'Mug' }), await store.addProduct({ amount: 500, name: 'Pot' })]
  const items = [
    { product_id: mug.id, quantity: 2 },
    { product_id: pot.id, quantity: 1 },
  ]
  const json = await ada.ok('POST', '/orders', { body: { items } })
  for (const step of steps) {
    const { method = 'POST', path, body } = typeof step === 'function' ? step(mug.id) : step
    const answer = await operator.call(method, `/admin/orders/${json.id}/${path}`, { body })
    assert.equal(answer.status, 200, answer.text)
  }
  const { rows } = await store.pool.query<Record<string, unknown>>('select *, number::text from orders where id = $1', [json.id])
  const record = Object.fromEntries(RECORD_COLUMNS.map((column) => [column, rows[0]?.[column]])) as unknown as OrderRecord
  return toOrderEvents(record).filter(hasMail).map(toMailContent)
}
const linesOf = (content: ReturnType<typeof toMailContent> | undefined) =>
  content && [content.kind, ...content.order.items.map(({ name, quantity, total }) => `${quantity} ${name} ${total}`), content.order.total]
const oneMug =
  (path: string, more: object = {}) =>
  (mug: string) => ({ path, body: { lines: [{ product_id: mug, quantity: 1 }], ...more } })

for (const change of [SHIPPING, PAID]) {
  test(`the mail about a cancelled order lists all lines that the order had, after ${change.path}`, async () => {
    const content = (await mailsAfter([change, to('confirmed'), to('cancelled', 'sold out')])).at(-1)
    const total = change === SHIPPING ? 2_990 : 2_500
    assert.ok(content)
    assert.deepEqual(linesOf(content), ['cancelled', '2 Mug 2000', '1 Pot 500', total])
    for (const language of LANGUAGES) {
      const { text, html } = render(content, null, language)
      for (const part of ['2 × Mug', '1 × Pot', 'sold out']) assert.ok(text.includes(part) && html.includes(part), `${language}: ${part}`)
      for (const amount of ['20', '5', String(total / 100).replace(/\..*/, '')]) assert.match(text, new RegExp(`\\b${amount}[.,]\\d0`))
    }
  })
}

test('later mails omit cancelled units, and the lines of each mail add up to its total', async () => {
  const sumOf = ({ order }: ReturnType<typeof toMailContent>) =>
    [...order.items.map(({ total }) => total), ...(order.adjustments ?? []).map(({ amount }) => amount)].reduce(
      (sum, amount) => sum + amount,
      0,
    )
  const cancelled = await mailsAfter([SHIPPING, oneMug('cancellations'), to('confirmed'), to('cancelled')])
  assert.deepEqual(cancelled.slice(2).map(linesOf), [
    ['confirmed', '1 Mug 1000', '1 Pot 500', 1_990],
    ['cancelled', '1 Mug 1000', '1 Pot 500', 1_990],
  ])
  const rest = await mailsAfter([SHIPPING, oneMug('cancellations'), { path: 'cancellations', body: {} }])
  assert.deepEqual(linesOf(rest.at(-1)), ['cancelled', '1 Mug 1000', '1 Pot 500', 1_990])
  const returned = await mailsAfter([
    PAID,
    to('confirmed'),
    oneMug('cancellations'),
    to('shipped'),
    oneMug('returns', { restock: true }),
    to('returned'),
  ])
  assert.deepEqual(returned.slice(3).map(linesOf), [
    ['shipped', '1 Mug 1000', '1 Pot 500', 1_500],
    ['part_returned', '1 Mug 1000', '1 Pot 500', 1_500],
    ['returned', '1 Mug 1000', '1 Pot 500', 1_500],
  ])
  const parcels = await mailsAfter([
    to('confirmed'),
    SHIPPING,
    oneMug('shipments'),
    { path: 'cancellations', body: {} },
    to('delivered'),
    to('returned'),
  ])
  assert.deepEqual(parcels.slice(2).map(linesOf), [
    ['part_shipped', '2 Mug 2000', '1 Pot 500', 2_990],
    ['part_cancelled', '1 Mug 1000', 1_490],
    ['delivered', '1 Mug 1000', 1_490],
    ['returned', '1 Mug 1000', 1_490],
  ])
  for (const content of [...cancelled, ...rest, ...returned, ...parcels]) assert.equal(sumOf(content), content.order.total, content.kind)
})

test('a mail after a refund shows the refunded amount below the total, in each language', async () => {
  const refund: Step = { path: 'refunds', body: { amount: { amount: 735, currency: 'EUR' }, reference: 're_1' } }
  const [created, confirmed] = await mailsAfter([PAID, refund, to('confirmed')])
  const REFUNDED = { en: 'Refunded', de: 'Erstattet', fr: 'Remboursé', es: 'Reembolsado' }
  for (const language of LANGUAGES) {
    assert.ok(created && confirmed)
    const { text, html } = render(confirmed, null, language)
    for (const body of [text, html.replaceAll(/<[^>]*>/g, '')])
      assert.match(body, new RegExp(`25[.,]00[^0-9]*${REFUNDED[language]}[^0-9]*7[.,]35`), language)
    assert.doesNotMatch(render(created, null, language).text, new RegExp(REFUNDED[language]))
  }
})

test('a mail about a part of an order gives the reason once, beside the units that it concerns', async () => {
  const reason = 'one was broken'
  const steps = [oneMug('cancellations', { reason }), oneMug('shipments', { reason }), oneMug('returns', { reason, restock: false })]
  const mails = await mailsAfter([to('confirmed'), ...steps])
  const NOW = { en: 'Your order now:', de: 'Ihre Bestellung ist nun:', fr: 'Votre commande est maintenant', es: 'Su pedido es ahora:' }
  const parts = mails.filter(({ kind }) => kind.startsWith('part_'))
  assert.equal(parts.length, 3)
  for (const content of parts) {
    for (const language of LANGUAGES) {
      const { text, html } = render(content, null, language)
      for (const body of [text, html]) {
        const of = `${language} ${content.kind}: ${body}`
        assert.equal(body.split(reason).length, 2, of)
        assert.ok(body.indexOf('1 × Mug') < body.indexOf(reason), of)
        assert.equal(body.includes(NOW[language]), content.kind === 'part_cancelled', of)
        if (content.kind === 'part_cancelled') assert.ok(body.indexOf(reason) < body.indexOf(NOW[language]), of)
      }
    }
  }
})

test('a mail about another billing address or VAT number says which of them changed, in each language, without showing it', async () => {
  const billing_address = { name: 'Ada', company: 'Quadrille', line1: 'Ring 1', city: 'Wien', postal_code: '1010', country: 'AT' }
  const [, content] = await mailsAfter([{ path: 'amendments', body: { billing_address, vat_number: 'ATU12345678' } }])
  assert.ok(content)
  const SAID = {
    en: 'The billing address or VAT',
    de: 'Rechnungsadresse oder',
    fr: 'adresse de facturation ou',
    es: 'dirección de facturación o',
  }
  for (const language of LANGUAGES) {
    const { text, html } = render(content, null, language)
    for (const body of [text, html]) {
      assert.ok(body.includes(SAID[language]), `${language}: ${body}`)
      assert.doesNotMatch(body, /Quadrille|ATU12345678/)
    }
  }
})
