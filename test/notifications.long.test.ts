import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { makeDataFolder } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { listProducts, register } from './shopping.ts'
import { startSmtpServer } from './smtp-server.ts'
import { runStorefront, serve } from './store-process.ts'
import { isAuthentic, startWebhookReceiver } from './webhook-receiver.ts'

// A new cluster takes a second: the tests share this one, one after the other.
const folder = makeDataFolder({ after })

test('an order reaches its customer and an endpoint, and the commands beside the store list both and retry', async (t) => {
  const smtp = await startSmtpServer(t)
  const receiver = await startWebhookReceiver(t)
  const env = { DATA_DIR: folder.path, SMTP_URL: smtp.url, WEBHOOK_ALLOW_PRIVATE: 'on' }
  const run = (...args: string[]) => runStorefront(t, args, { env })
  const store = await serve(t, { env })

  const added = await run('webhook', 'add', `${receiver.url}?token=hunter2`, '--events', 'storefront.order.created')
  const [, id = '', secret = ''] = /^added the endpoint (\S+)\nsecret: (whsec_\S+)\nIt is not shown again\.\n$/.exec(added.stdout) ?? []
  assert.ok(secret, added.stdout + added.stderr)
  receiver.answer(410)

  const [product = assert.fail('nothing to order')] = await listProducts(store.url)
  const email = 'gone@example.com'
  smtp.refuse(email, { code: 550, text: '5.1.1 unknown', times: 1 })
  const shopper = await register(store.url, email)
  const order = (await shopper.order(product)) ?? assert.fail('the order was refused')

  await eventually(async () => receiver.requests.length === 1)
  const failed = await eventually(async () => {
    const { stdout } = await run('mail', 'list', '--status', 'failed', '--order', order)
    return stdout.includes('550 5.1.1 unknown') && stdout
  })
  assert.match(failed, /\| 100001 \| created \| failed \| 1 +\|/)
  assert.ok(!failed.includes(email))
  const listed = async (...args: string[]) => JSON.parse((await run(...args, '--json')).stdout) as Record<string, unknown>[]
  const [mail, ...others] = await listed('mail', 'list', '--status', 'failed')
  assert.deepEqual([mail?.event_id, mail?.status, mail?.sent_at, others], [`${order}.1`, 'failed', null, []])
  assert.deepEqual(
    (await listed('webhook', 'list')).map((endpoint) => endpoint.id),
    [id],
  )
  assert.deepEqual(
    (await listed('webhook', 'deliveries', id)).map((delivery) => delivery.event_id),
    [`${order}.1`],
  )
  assert.deepEqual(await run('mail', 'retry', `${order}.1`), { status: 0, stdout: '1 mail is queued again\n', stderr: '' })
  await eventually(async () => smtp.mails.length === 1)

  const list = await eventually(async () => {
    const { stdout } = await run('webhook', 'list')
    return stdout.includes('it answered 410 Gone') && stdout
  })
  assert.ok(list.includes(id) && list.includes('/hooks?…') && !list.includes('hunter2') && !list.includes(secret), list)
  receiver.answer(200)
  assert.match(
    (await run('webhook', 'enable', id)).stdout,
    /^enabled the endpoint .+\n1 failed deliveries wait for storefront webhook redeliver /,
  )
  assert.deepEqual(await run('webhook', 'redeliver', id, '--all-failed'), { status: 0, stdout: '1 event is delivered again\n', stderr: '' })
  const delivered = await eventually(async () => {
    const { stdout } = await run('webhook', 'deliveries', id, '--status', 'delivered')
    return stdout.includes(order) && stdout
  })
  assert.match(delivered, /storefront\.order\.created \| delivered/)
  assert.ok(receiver.requests.length === 2 && receiver.requests.every((request) => isAuthentic(secret, request)))
  const rotated = await run('webhook', 'rotate', id)
  assert.match(rotated.stdout, /^secret: whsec_\S+\nIt is not shown again\. For 24 hours/, rotated.stderr)
  assert.deepEqual(await run('webhook', 'remove', id), { status: 0, stdout: `removed the endpoint ${id}\n`, stderr: '' })
  assert.ok(!JSON.stringify(store.logs).includes('hunter2'))
  assert.equal(await store.end('SIGTERM'), 0)
})

test('refuses arguments and templates it cannot use, and says why', async (t) => {
  const templates = join(folder.path, 'templates')
  mkdirSync(templates, { recursive: true })
  writeFileSync(join(templates, 'shipped.txt.mustache'), 'Subject\n{{#items}}')
  const refused = { DATA_DIR: folder.path, MAIL_TEMPLATES: templates, LOG_LEVEL: 'silent' }
  for (const processes of ['1', '2']) {
    const broken = await runStorefront(t, ['serve'], { env: { ...refused, WEB_CONCURRENCY: processes } })
    assert.deepEqual([broken.status, broken.stdout], [2, ''], processes)
    assert.match(broken.stderr, /^storefront: .*shipped\.txt\.mustache: Unclosed section "items" at \d+\n$/)
  }
  await serve(t, { env: { DATA_DIR: folder.path } })
  const refusals: [string[], number, RegExp][] = [
    [['mail', 'list', '--status', 'lost'], 2, /--status must be one of queued, sent, failed/],
    [['mail', 'list', '--order', "1' or true"], 2, /--order must be an id or a number/],
    [['mail', 'retry'], 2, /mail retry: give EVENT_ID or --all-failed, one of the two\n/],
    [['mail', 'retry', 'nothing.1'], 1, /^there is no mail of the event nothing\.1; storefront mail list shows them\n$/],
    [['webhook', 'add', 'banana'], 2, /^storefront: the URL cannot be read; it must look like https:\/\/shop\.example\/hooks\n$/],
    [
      ['webhook', 'add', 'https://shop.example/', '--events', 'order.eaten'],
      2,
      /^storefront: there is no event order\.eaten; there are storefront/,
    ],
    [['webhook', 'add', 'https://me:hunter2@shop.example/'], 2, /^storefront: the URL must contain no user name and no password\n$/],
    [['webhook', 'redeliver', 'x'], 2, /webhook redeliver: give EVENT_ID or --all-failed, one of the two\n/],
    [['webhook', 'enable', 'x'], 1, /^storefront: there is no endpoint x; storefront webhook list shows them\n$/],
  ]
  const results = await Promise.all(refusals.map(([args]) => runStorefront(t, args, { env: { DATA_DIR: folder.path } })))
  for (const [index, result] of results.entries()) {
    const [args, status, message] = refusals[index] ?? assert.fail()
    assert.deepEqual([result.status, result.stdout], [status, ''], `${args.join(' ')}: ${result.stderr}`)
    assert.match(result.stderr, message)
    assert.ok(!result.stderr.includes('hunter2'))
  }
})
