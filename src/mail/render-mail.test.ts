import assert from 'node:assert/strict'
import { test } from 'node:test'
import { amountFormatter } from '../../client/src/currency.ts'
import { makeOrderEvent, makeOrderItem } from '../../test/order-event-factory.ts'
import { LANGUAGES } from '../language.ts'
import { mailLanguages } from './mail-languages.ts'
import { createMailRenderer, toMailContent } from './render-mail.ts'
import { createTemplateReader } from './templates.ts'

const render = createMailRenderer({ orderUrl: 'https://shop.example/order' }, createTemplateReader(null), mailLanguages('en', null))

test('the text and the HTML list the lines and the total of the order', () => {
  const items = [
    makeOrderItem({ name: 'Mug', quantity: 2, total: { amount: 2_500, currency: 'EUR' } }),
    makeOrderItem({ name: 'Tea pot', quantity: 1, total: { amount: 123_450, currency: 'EUR' } }),
  ]
  const event = makeOrderEvent({ order: { number: 'SF-7', items, total: { amount: 125_950, currency: 'EUR' } } })
  const mail = render(toMailContent(event), 'Ada Lovelace')
  assert.equal(mail.subject, 'We have received your order SF-7')
  for (const body of [mail.text, mail.html]) {
    for (const part of ['Hello Ada Lovelace,', 'SF-7', '2 × Mug', '€25.00', '1 × Tea pot', '€1,234.50', '€1,259.50']) {
      assert.ok(body.includes(part), `${part} is missing`)
    }
  }
  assert.ok(mail.text.includes('2 × Mug (€12.50 each): €25.00\n1 × Tea pot: €1,234.50\n\nTotal: €1,259.50\n'))
  assert.match(mail.html, /^<!doctype html>\n<html lang="en">/)
  assert.match(mail.html, /<title>We have received your order SF-7<\/title>/)
})

test('each kind of order event has a mail of its own', () => {
  const subjects = (['created', 'confirmed', 'shipped', 'delivered', 'cancelled', 'returned'] as const).map((kind) => {
    const mail = render(toMailContent(makeOrderEvent({ type: `storefront.order.${kind}` })), null)
    for (const body of [mail.text, mail.html]) {
      assert.ok(body.includes('Hello,'))
      assert.ok(!body.includes('{{'))
    }
    return mail.subject
  })
  assert.equal(new Set(subjects).size, 6)
  const unknown = { ...toMailContent(makeOrderEvent()), kind: 'refunded' }
  assert.throws(() => render(unknown, null), /there is no mail for refunded/)
})

test('separates the parts of a text by one empty line, and states the reason for a part of the order once', () => {
  const event = makeOrderEvent({ order: { number: 'SF-7' } })
  const part = { ...toMailContent(event), reason: 'Sold out', lines: [{ name: 'Lamp', quantity: 3 }] }
  const tracking = { carrier: 'DHL', number: 'JJD0001', url: 'https://track.example/JJD0001' }
  const link = 'See your order\nhttps://shop.example/order\n\n'
  const footer = 'You get this mail because an order with this address has changed. It was sent automatically.\n'
  const textOf = (kind: string) => render({ ...part, kind, tracking }, null).text.split(footer)
  const order = '2 × Mug (€12.50 each): €25.00\n\nTotal: €25.00\n\n'
  assert.deepEqual(textOf('part_cancelled'), [
    'Hello,\n\nThese items of your order SF-7 are cancelled and will not be shipped:\n\n3 × Lamp\n\nReason: Sold out\n\n' +
      `Your order now:\n\n${order}${link}`,
    '',
  ])
  assert.deepEqual(textOf('part_shipped'), [
    'Hello,\n\nWe have shipped these items of your order SF-7:\n\n3 × Lamp\n\nDHL, tracking number JJD0001\n' +
      `https://track.example/JJD0001\n\nReason: Sold out\n\n${link}`,
    '',
  ])
  assert.deepEqual(textOf('cancelled'), [
    `Hello,\n\nYour order SF-7 is cancelled and will not be shipped.\n\nReason: Sold out\n\n${order}${link}`,
    '',
  ])
})

test('escapes markup in names and reasons in the HTML, and keeps it in the text', () => {
  const script = `<script>alert("1 & '2'")</script>`
  const event = makeOrderEvent({
    type: 'storefront.order.cancelled',
    order: {
      items: [makeOrderItem({ name: `Mug ${script}` })],
      status_history: [{ status: 'cancelled', at: '2026-03-01T10:00:00.000Z', actor: { type: 'admin', id: null }, reason: script }],
    },
  })
  const mail = render(toMailContent(event), script)
  assert.ok(!mail.html.includes('<script'))
  assert.equal(mail.html.split('&lt;script&gt;').length, 4)
  assert.ok(mail.text.includes(`Hello ${script},`))
  assert.ok(mail.text.includes(`× Mug ${script} (€`))
  assert.ok(mail.text.includes(`Reason: ${script}\n`))
})

const shippedWith = (tracking: object | undefined) =>
  makeOrderEvent({
    type: 'storefront.order.shipped',
    order: {
      status: 'shipped',
      status_history: [
        {
          status: 'shipped',
          at: '2026-03-01T10:00:00.000Z',
          actor: { type: 'admin', id: null },
          reason: null,
          ...(tracking && { tracking }),
        },
      ] as never,
    },
  })

test('names the carrier, number and page of the parcel if the order was shipped with them', () => {
  const tracking = { carrier: 'DHL', number: 'JJD0001', url: 'https://track.example/p?id=JJD0001&lang=en' }
  const mail = render(toMailContent(shippedWith(tracking)), null)
  assert.ok(mail.text.includes('DHL, tracking number JJD0001\nhttps://track.example/p?id=JJD0001&lang=en\n'), mail.text)
  assert.match(mail.html, /DHL, tracking number <a href="([^"]*)">JJD0001<\/a>/)
  const [, href = ''] = /href="([^"]*)"/.exec(mail.html) ?? []
  assert.equal(href.replaceAll('&#x2F;', '/').replaceAll('&#x3D;', '=').replaceAll('&amp;', '&'), tracking.url)
  const bare = render(toMailContent(shippedWith({ carrier: 'DHL', number: 'JJD0001' })), null)
  assert.ok(bare.text.includes('DHL, tracking number JJD0001\n\n'), bare.text)
  assert.ok(bare.html.includes('DHL, tracking number JJD0001</p>'))
  for (const none of [
    render(toMailContent(shippedWith(undefined)), null),
    render({ ...toMailContent(shippedWith(tracking)), tracking: null }, null),
  ]) {
    assert.ok(!none.text.includes('tracking number') && !none.html.includes('tracking number'))
  }
})

test("escapes a parcel's carrier and number in the HTML, keeps them on one line, and links only to web addresses", () => {
  const script = '"><script>alert(1)</script>'
  for (const url of ['javascript:alert(1)', 'data:text/html,x', 'https://ada:secret@evil.example/', 'nonsense']) {
    const mail = render(toMailContent(shippedWith({ carrier: `DHL ${script}`, number: 'JJD\r\nBcc: eve', url })), null)
    assert.ok(!mail.html.includes('<script') && !/<a href[^>]*>JJD/.test(mail.html), url)
    assert.ok(mail.text.includes('tracking number JJD Bcc: eve\n') && !mail.text.includes(url), mail.text)
  }
  const quoted = render(toMailContent(shippedWith({ carrier: 'DHL', number: '1', url: 'https://track.example/"onmouseover="x' })), null)
  assert.ok(!quoted.html.includes('"onmouseover'))
})

test('treats template syntax in names as plain text', () => {
  const event = makeOrderEvent({ order: { items: [makeOrderItem({ name: '{{number}} {{> footer}}' })] } })
  assert.ok(render(toMailContent(event), null).text.includes('{{number}} {{> footer}}'))
})

test('keeps names with line breaks on one line', () => {
  const event = makeOrderEvent({
    order: { number: 'SF-1\r\nBcc: eve@example.com', items: [makeOrderItem({ name: 'Mug\r\n\r\nTotal: free' })] },
  })
  const mail = render(toMailContent(event), 'Ada\r\nBcc: eve@example.com')
  assert.equal(mail.subject, 'We have received your order SF-1 Bcc: eve@example.com')
  assert.ok(mail.text.includes('Hello Ada Bcc: eve@example.com,'))
  assert.ok(mail.text.includes('× Mug Total: free (€'))
})

test('removes direction controls from every text, because they could reorder an amount', () => {
  const evil = 'Mug\u202e \u202aof\u2067 tea\u2069'
  const items = [makeOrderItem({ name: evil })]
  const event = makeOrderEvent({ type: 'storefront.order.shipped', order: { items, number: evil } })
  const content = { ...toMailContent(event), reason: evil, tracking: { carrier: evil, number: evil } }
  const adjustments = [{ label: evil, amount: 1 }]
  const mail = render({ ...content, order: { ...content.order, adjustments }, lines: [{ name: evil, quantity: 1 }] }, evil)
  for (const text of [mail.subject, mail.text, mail.html]) assert.doesNotMatch(text, /[\u202a-\u202e\u2066-\u2069]/)
  assert.match(mail.text, /Hello Mug of tea,/)
})

test('lists 100 lines of the largest order, counts the others, and stays below the size at which mail programs cut, in every language', () => {
  const name = 'Täßchen '.repeat(12)
  const items = Array.from({ length: 1_000 }, (_, index) => makeOrderItem({ name: `${name}${index + 1}` }))
  const event = makeOrderEvent({ order: { items } })
  for (const language of LANGUAGES) {
    const mail = render(toMailContent(event), 'Ada', language)
    for (const body of [mail.text, mail.html]) {
      assert.ok(body.includes(`${name}100`) && !body.includes(`${name}101`))
      assert.match(body, / 900/)
    }
    assert.ok(Buffer.byteLength(mail.html) < 60_000, `${Buffer.byteLength(mail.html)} bytes`)
  }
  const part = { ...toMailContent(event), kind: 'part_shipped', lines: items.map(({ name: line, quantity }) => ({ name: line, quantity })) }
  assert.match(render(part, 'Ada').text, /… \+ 900\n/)
  const few = render(toMailContent(makeOrderEvent({ order: { items: items.slice(0, 100) } })), 'Ada')
  assert.doesNotMatch(few.text, /more/)
})

test('contains no address that a mail program would load', () => {
  const mail = render(toMailContent(makeOrderEvent()), null)
  assert.ok(!/src=|url\(/.test(mail.html))
  // The customer follows this link or not.
  assert.deepEqual(
    [...mail.html.matchAll(/<a href="(http[^"]*)"|http/g)].map(([, address]) => address),
    ['https:&#x2F;&#x2F;shop.example&#x2F;order'],
  )
})

test('the mail contains only the parts of the event that templates need', () => {
  const json = JSON.stringify(toMailContent(makeOrderEvent()))
  for (const secret of ['Lovelace', 'St James', 'blue door', 'reference-of-the-customer']) assert.ok(!json.includes(secret))
})

test('writes amounts exactly up to 2^53, with the decimals that ISO 4217 gives the currency', () => {
  assert.equal(amountFormatter('EUR', 'en')(5), '€0.05')
  assert.equal(amountFormatter('JPY', 'en')(1_200), '¥1,200')
  assert.equal(amountFormatter('KWD', 'en')(1_234_567), 'KWD\u00a01,234.567')
  assert.equal(amountFormatter('HUF', 'en')(123_456), 'HUF\u00a01,234.56')
  assert.equal(amountFormatter('EUR', 'en')(-1_999), '-€19.99')
  assert.equal(amountFormatter('EUR', 'de')(123_450), '1.234,50\u00a0€')
  assert.equal(amountFormatter('USD', 'en')(Number.MAX_SAFE_INTEGER), '$90,071,992,547,409.91')
})
