import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pino from 'pino'
import { createTestDatabase, type TestDatabase } from '../../test/database.ts'
import { insertUser, startMailSubscriber, waitForDelivery } from '../../test/mail-harness.ts'
import { makeOrderEvent } from '../../test/order-event-factory.ts'
import { addProduct } from '../../test/store.ts'
import { insertOrders } from '../../test/stream-harness.ts'
import { createEncryption } from '../auth/store-secret.ts'
import type { Language } from '../language.ts'
import type { OrderEvent } from '../orders/events.ts'
import type { AccountMailContent } from './account-mail.ts'
import { retryFailed } from './email-deliveries.ts'
import { mailLanguages } from './mail-languages.ts'
import { receiverOfAddress, receiverOfStaff } from './mail-share.ts'
import { readMailTemplates } from './mail-templates.ts'
import { MailRefused } from './mailer.ts'
import { StaffMails, type StaffMailsOptions } from './staff-mails.ts'
import { deleteOldStaffNotices } from './staff-notices.ts'
import { UNBRANDED } from './templates.ts'

const encryption = createEncryption('the secret of the store, long enough', 'account mail')
const logger = pino({ level: 'silent' })
const CONSOLE = 'https://shop.example/console'
const templates = readMailTemplates({
  ...{ directory: null, languages: mailLanguages('en', null), currency: 'EUR' },
  ...{ accountUrl: null, orderUrl: 'https://shop.example/order', consoleUrl: CONSOLE, shop: UNBRANDED },
})

function makeStaff(db: TestDatabase, options: Partial<StaffMailsOptions> = {}): StaffMails {
  const settings = { to: ['staff@store.example'], orders: 'at_once', language: 'en' } as const
  return new StaffMails({ ...settings, pool: db.pool, encryption, logger, now: () => new Date(), ...options })
}

/** A subscriber that notes orders for the staff, and what makes the mails, whose loop stands still. */
async function startStaff(t: TestContext, options: Partial<StaffMailsOptions> = {}, send?: () => Promise<void>) {
  const noted: { staff?: StaffMails } = {}
  const started = await startMailSubscriber(t, {
    staffMails: { noticeOrders: async (tx, events) => (await noted.staff?.noticeOrders(tx, events)) ?? false, wake() {} },
    ...(send === undefined ? {} : { send }),
  })
  const staff = makeStaff(started.db, options)
  noted.staff = staff
  // A minute later: the next mail is due.
  const nextMinute = async () => {
    await started.db.pool.query(`update staff_mails set mailed_at = mailed_at - interval '1 minute'`)
    await staff.queueDue()
  }
  await staff.queueDue()
  return { ...started, staff, nextMinute }
}

/** The queued staff mails as they would be sent, the oldest first. */
async function staffMails({ pool }: TestDatabase) {
  const { rows } = await pool.query<{ encrypted: string }>('select encrypted from account_mails order by due_at, mail_id')
  return rows.map(({ encrypted }) => {
    const { kind, to, language, ...values }: AccountMailContent = JSON.parse(encryption.decrypt(encrypted) ?? '')
    assert.ok(kind !== 'none')
    return { to, ...templates.renderAccountMail(kind, values, language) }
  })
}
const subjects = async (db: TestDatabase) => (await staffMails(db)).map(({ subject }) => subject)

const unescaped = (html: string) => html.replaceAll('&#x3D;', '=').replaceAll('&#x2F;', '/')

const numbered = (userId: string, number: number, overrides: { time?: string } = {}): OrderEvent => ({
  ...makeOrderEvent({ order: { user_id: userId, number: String(number) } }),
  ...{ time: new Date(Date.now() + number).toISOString(), ...overrides },
})

test('new orders are reported once, in at most one mail a minute to each address, with a link and without the customer', async (t) => {
  const { db, publish, staff, nextMinute } = await startStaff(t, { to: ['one@store.example', 'two@store.example'] })
  const userId = await insertUser(db, 'ada@example.com', 'www.evil.example')
  const [first, second, third] = [1, 2, 3].map((number) => numbered(userId, number)) as [OrderEvent, OrderEvent, OrderEvent]
  await publish([first])
  await staff.queueDue()
  await publish([second, third])
  await staff.queueDue()
  assert.deepEqual(
    (await staffMails(db)).map(({ to, subject }) => [to, subject]),
    ['one@store.example', 'two@store.example'].map((to) => [to, 'New order 1']),
  )
  await nextMinute()
  assert.deepEqual((await subjects(db)).slice(2), Array(2).fill('New order 2 and 1 more'))
  const url = `${CONSOLE}#orders?order=${second.data.order.id}`
  const mail = (await staffMails(db))[2]
  assert.ok(mail)
  assert.ok(mail.text.includes(`\n2, €25.00\n${url}\n3, €25.00\n`), mail.text)
  assert.ok(unescaped(mail.html).includes(`<li><a href="${url}">2, €25.00</a></li>`), mail.html)
  assert.ok(![mail.text, mail.html].some((body) => /ada@|evil/.test(body)))
  // A redelivery, a replay and later changes of the orders.
  await publish([first, second, third, makeOrderEvent({ type: 'storefront.order.confirmed', order: { user_id: userId } })])
  await nextMinute()
  assert.equal((await staffMails(db)).length, 4)
})

test('an old order is not reported, and neither is an order from before the setting', async (t) => {
  const { db, publish, nextMinute } = await startStaff(t)
  const userId = await insertUser(db, 'ada@example.com')
  await publish([numbered(userId, 1, { time: new Date(Date.now() - 8 * 86_400_000).toISOString() })])
  await nextMinute()
  const other = await startMailSubscriber(t)
  const earlier = numbered(await insertUser(other.db, 'ada@example.com'), 1)
  await other.publish([earlier])
  await makeStaff(other.db).queueDue()
  assert.deepEqual([...(await subjects(db)), ...(await subjects(other.db))], [])
})

test('with `hourly`, the orders before the full hour are in one mail, and with `never` no mail is sent', async (t) => {
  const { db, publish, staff } = await startStaff(t, { orders: 'hourly', language: 'de' })
  const userId = await insertUser(db, 'ada@example.com')
  await publish([1, 2].map((number) => numbered(userId, number)))
  // At the change of an hour they would be due.
  await db.pool.query(`update staff_notices set noticed_at = date_trunc('hour', now() + interval '1 minute')`)
  await staff.queueDue()
  assert.deepEqual(await subjects(db), [])
  await db.pool.query(`update staff_notices set noticed_at = date_trunc('hour', now()) - interval '1 millisecond'`)
  await staff.queueDue()
  const [mail] = await staffMails(db)
  assert.equal(mail?.subject, 'Neue Bestellung 1 und 1 weitere')
  assert.match(mail?.text ?? '', /^Guten Tag,\n\ndiese Bestellungen sind neu:\n\n1, 25,00\u00a0€\n/)
  const never = await startStaff(t, { orders: 'never' })
  await never.publish([numbered(await insertUser(never.db, 'ada@example.com'), 1)])
  await never.nextMinute()
  assert.equal((await never.db.pool.query('select from staff_notices')).rowCount, 0)
})

test('a burst of 10,000 orders is one mail with 50 orders, their total number, and a link to the rest', async (t) => {
  const { db, staff, publish } = await startStaff(t)
  await publish([numbered(await insertUser(db, 'ada@example.com'), 1)])
  await db.pool.query(
    `insert into staff_notices (kind, subject, happened_at, content)
    select 'staff_orders', number, now() + interval '1 second',
      json_build_object('id', number, 'name', number::text, 'total', json_build_object('amount', 100, 'currency', 'EUR'))
    from generate_series(2, 10000) as number`,
  )
  await staff.queueDue()
  const [mail, ...more] = await staffMails(db)
  assert.deepEqual([mail?.subject, more], ['New order 1 and 9999 more', []])
  assert.equal(mail?.text.match(/#orders\?order=/g)?.length, 50)
  assert.ok(mail?.text.includes(`and 9950 more\n\nConsole: ${CONSOLE}#orders\n`), mail?.text)
  assert.ok(mail.html.length < 30_000, String(mail.html.length))
})

test('two processes make one mail together, and orders that a dying process has taken are reported by another', async (t) => {
  const { db, publish, staff } = await startStaff(t)
  const userId = await insertUser(db, 'ada@example.com')
  await publish([numbered(userId, 1)])
  const dying = makeStaff(db, { encryption: { ...encryption, encrypt: () => Promise.reject(new Error('killed')) } })
  await assert.rejects(dying.queueDue(), /killed/)
  await Promise.all([staff, makeStaff(db), makeStaff(db), makeStaff(db)].map((each) => each.queueDue()))
  await makeStaff(db).queueDue()
  assert.deepEqual(await subjects(db), ['New order 1'])
})

test('nothing is taken while the mail server is unavailable, and one mail reports everything later', async (t) => {
  let isHeldUp = true
  const { db, publish, staff, nextMinute } = await startStaff(t, { isHeldUp: () => isHeldUp })
  const userId = await insertUser(db, 'ada@example.com')
  for (const number of [1, 2, 3]) {
    await publish([numbered(userId, number)])
    await nextMinute()
  }
  isHeldUp = false
  await staff.queueDue()
  assert.deepEqual(await subjects(db), ['New order 1 and 2 more'])
})

test('an address that temporarily accepts no mail has one waiting mail, and delays no customers in its domain', async (t) => {
  const { db, publish, nextMinute } = await startStaff(t, { to: ['one@store.example', 'slow@store.example'] })
  const userId = await insertUser(db, 'ada@example.com')
  const inAMinute = async (number: number) => {
    await publish([numbered(userId, number)])
    await nextMinute()
    return (await staffMails(db)).map(({ to, subject }) => `${to?.split('@')[0]}: ${subject}`)
  }
  await inAMinute(1)
  const slow = receiverOfStaff('slow@store.example')
  const { rows } = await db.pool.query('select receiver from account_mails order by receiver = $1', [slow])
  assert.deepEqual(
    rows.map(({ receiver }) => receiver),
    [receiverOfStaff('one@store.example'), slow],
  )
  assert.ok(slow !== receiverOfAddress('slow@store.example') && !slow.includes('@'))
  // The other mail went out.
  await db.pool.query('delete from account_mails where receiver <> $1', [slow])
  const wait = (minutes: number) => db.pool.query(`update account_mails set expires_at = expires_at - interval '${minutes} minutes'`)
  await wait(1)
  assert.deepEqual(await inAMinute(2), ['slow: New order 1'])
  await wait(15)
  assert.deepEqual(await inAMinute(3), ['slow: New order 1', 'one: New order 2 and 1 more'])
  await db.pool.query('delete from account_mails where receiver <> $1', [slow])
  assert.deepEqual(await inAMinute(4), ['slow: New order 1', 'one: New order 4'])
  // The mail went out.
  await db.pool.query('delete from account_mails')
  assert.deepEqual(await inAMinute(5), ['one: New order 5', 'slow: New order 5'])
})

test('a kind of mail that cannot be made delays neither other kinds nor new orders', async (t) => {
  const { db, publish, staff } = await startStaff(t)
  await db.pool.query(`delete from staff_mails where kind = 'staff_sold_out'`)
  await db.pool.query('update staff_mails set examined_at = null')
  await publish([numbered(await insertUser(db, 'ada@example.com'), 1)])
  await assert.rejects(staff.queueDue(), /staff_sold_out/)
  const { rows } = await db.pool.query('select from staff_mails where examined_at is null')
  assert.deepEqual([await subjects(db), rows], [['New order 1'], []])
})

test("a mail is made even after the database's clock went back an hour", async (t) => {
  const { db, publish, staff } = await startStaff(t)
  await publish([numbered(await insertUser(db, 'ada@example.com'), 1)])
  await db.pool.query(`update staff_mails set examined_at = now() + interval '1 hour', mailed_at = now() + interval '1 hour'`)
  await staff.queueDue()
  assert.deepEqual(await subjects(db), ['New order 1'])
})

test('a product is reported once each time it is sold out, and not for its past', async (t) => {
  const db = await createTestDatabase(t)
  const setStock = (id: string, available: number) =>
    db.pool.query('update inventory set available = $2 where product_id = $1', [id, available])
  const add = (name: string) => addProduct(db.pool, { name, stock: 5 })
  const [past, mug, back, archived] = [await add('Past'), await add('Mug <b> & "co"'), await add('Back'), await add('Archived')]
  await setStock(past.id, 0)
  const staff = makeStaff(db)
  const nextMinute = async () => {
    await db.pool.query(`update staff_mails set mailed_at = mailed_at - interval '1 minute'`)
    await staff.queueDue()
  }
  await staff.queueDue()
  for (const { id } of [mug, back, archived]) await setStock(id, 0)
  await setStock(back.id, 3)
  await db.pool.query('update products set archived_at = now() where id = $1', [archived.id])
  // A product that never had stock is not reported.
  await addProduct(db.pool, { name: 'Empty', stock: 0 })
  for (let round = 0; round < 3; round++) await nextMinute()
  assert.deepEqual(await subjects(db), ['Sold out: Mug <b> & "co"'])
  const [mail] = await staffMails(db)
  assert.ok(mail)
  assert.ok(unescaped(mail.html).includes(`products?product=${mug.id}">Mug &lt;b&gt; &amp; &quot;co&quot;</a></li>`), mail.html)
  await setStock(mug.id, 1)
  await nextMinute()
  await setStock(mug.id, 0)
  await setStock(back.id, 0)
  for (let round = 0; round < 3; round++) await nextMinute()
  const [, again, ...more] = await subjects(db)
  assert.match(again ?? '', /^Sold out: (Mug <b> & "co"|Back) and 1 more$/)
  assert.deepEqual(more, [])
})

test('an undelivered mail is reported, and again when it fails again, but not that of a deleted account', async (t) => {
  const { db, publish, staff, nextMinute } = await startStaff(t, { orders: 'never', language: 'fr' }, async () => {
    throw new MailRefused('550 no')
  })
  await staff.queueDue()
  const ids = await insertOrders(db.pool, 3)
  const { rows } = await db.pool.query<{ id: string; number: string }>('select id, number from orders')
  const eventOf = async (place: number) => {
    const row = rows.find(({ id }) => id === ids[place])
    return makeOrderEvent({ order: { ...row, user_id: await insertUser(db, `${place}@example.com`) } })
  }
  const [lost, returned, erased] = [await eventOf(0), await eventOf(1), await eventOf(2)]
  await publish([lost])
  await waitForDelivery(db, lost, 'failed')
  await nextMinute()
  const [first] = await staffMails(db)
  assert.ok(first)
  assert.deepEqual(await subjects(db), [`Non reçu\u00a0: Nous avons bien reçu votre commande ${lost.data.order.number}`])
  assert.ok(first.text.includes(`${CONSOLE}#mails?mail=${lost.id}\n`) && !/@|550/.test(first.text), first.text)
  await nextMinute()
  assert.equal((await subjects(db)).length, 1)

  await retryFailed(db.pool, { eventId: lost.id, maxPerHour: null, now: new Date() })
  await waitForDelivery(db, lost, 'failed')
  await nextMinute()
  assert.equal((await subjects(db)).length, 2)

  await publish([returned, erased])
  for (const event of [returned, erased]) await waitForDelivery(db, event, 'failed')
  await db.pool.query(`update email_deliveries set status = 'sent', failed_at = null, bounced_at = now() where event_id = $1`, [
    returned.id,
  ])
  await db.pool.query('update email_deliveries set user_id = gen_random_uuid() where event_id = $1', [erased.id])
  // A corrected address: the notice to the former one fails, too.
  await db.pool.query(
    `insert into email_deliveries (event_id, user_id, order_id, event_type, content, status, failed_at, queued_at)
    select order_id || '.9.former', user_id, order_id, 'storefront.order.readdressed', content, status, now(), queued_at
    from email_deliveries where event_id = $1`,
    [lost.id],
  )
  await nextMinute()
  assert.equal((await subjects(db)).at(-1), `Non reçu\u00a0: Nous avons bien reçu votre commande ${returned.data.order.number}`)
})

test('notices older than a week are deleted, and younger ones stay', async (t) => {
  const { db, publish } = await startStaff(t)
  const userId = await insertUser(db, 'ada@example.com')
  await publish([1, 2].map((number) => numbered(userId, number)))
  await db.pool.query(`update staff_notices set noticed_at = now() - interval '9 days' where content ->> 'name' = '1'`)
  assert.equal(await deleteOldStaffNotices(db.pool), 1)
  assert.equal((await db.pool.query('select from staff_notices')).rowCount, 1)
})

test("a shop's template can use every value of a staff mail", () => {
  for (const language of ['en', 'de', 'fr', 'es'] satisfies Language[]) {
    const { text, subject } = templates.preview('staff_orders', language) ?? { text: '', subject: '' }
    assert.match(`${subject}\n${text}`, /100042.*52[\s\S]*100042, [\s\S]*52/)
  }
})
