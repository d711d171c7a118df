import { call, pathOf, poll, restartable, type Schemas, send, withQuery } from './api.ts'
import { confirmAction, openFormDialog } from './dialog.ts'
import { actions, button, create, link, note, replaceChildren, table, timeElement } from './dom.ts'
import { choice, field, labelled } from './form.ts'
import type { ScreenContext } from './screen.ts'
import { shownSecret } from './shown-secret.ts'
import { stateBadge } from './state-badge.ts'

type Webhook = Schemas['Webhook']
type Delivery = Schemas['WebhookDelivery']

const STATUSES = ['queued', 'delivered', 'failed'] as const
const PAGE = 20

type EventType = NonNullable<Schemas['WebhookInput']['event_types']>[number]

const EVENT_TYPES = {
  'storefront.order.created': 'An order was placed',
  'storefront.order.confirmed': 'An order was confirmed',
  'storefront.order.shipped': 'An order was shipped',
  'storefront.order.delivered': 'An order was delivered',
  'storefront.order.cancelled': 'An order was cancelled',
  'storefront.order.returned': 'An order was returned',
  'storefront.order.updated': 'A part, a charge or the payment of an order has changed',
  'storefront.order.amended': 'An operator has corrected an order',
  'storefront.product.created': 'A product was created',
  'storefront.product.updated': 'A product has changed',
  'storefront.product.archived': 'A product was archived',
  'storefront.product.restored': 'A product was restored',
  'storefront.price.changed': 'A price has changed',
  'storefront.stock.depleted': 'A product is sold out',
  'storefront.stock.replenished': 'A product is for sale again',
  'storefront.stock.level_changed': 'The stock of a product has reached a new level',
} as const satisfies Record<EventType, string>

/** The endpoints of webhooks. The address has the open one (`webhook`) and the filter of its deliveries (`deliveries`). */
export function webhooksCard({ parameters, signal, may, report, tell }: ScreenContext): HTMLElement {
  const list = create('div')
  const deliveries = create('div')
  const mayDeliver = may('webhooks:write')
  const secret = shownSecret({ tell })
  const card = create(
    'section',
    { class: 'card', attributes: { 'aria-labelledby': 'webhooks' } },
    create('h3', { id: 'webhooks' }, 'Webhooks'),
    mayDeliver && actions(button('Add an endpoint', () => askForEndpoint(null))),
    secret.element,
    list,
    deliveries,
  )
  const openId = parameters.get('webhook')
  let shown: Webhook[] = []
  let isListed = false
  const openOne = () => shown.find(({ id }) => id === openId)

  const redeliver = async (webhook: Webhook, body: Schemas['Redelivery'], question: string) => {
    if (!(await confirmAction({ title: 'Deliver again?', text: [question, webhook.url], action: 'Deliver again' }, signal))) return
    const { queued } = await call<Schemas['Redelivered']>('POST', `/admin/webhooks/${webhook.id}/redeliver`, { body, signal })
    tell(`${queued} ${queued === 1 ? 'event is' : 'events are'} delivered again.`)
    watchDeliveries()
  }

  const showSecret = ({ id, url, secret: text }: Schemas['NewWebhook'], control: HTMLElement) => {
    const hint =
      "This secret is shown only this time. Store it where the receiver can read it: the receiver verifies each webhook's signature with it."
    secret.show({ id, what: 'secret', heading: `The secret for ${url}`, hint, text }, control)
  }

  const askForEndpoint = (webhook: Webhook | null) => {
    const url = create('input', { type: 'url', name: 'url', maxLength: 2_000, required: webhook === null })
    const chosen: readonly string[] = webhook?.event_types ?? []
    const some = create('input', { type: 'radio', name: 'which', value: 'some', checked: chosen.length > 0 })
    const all = create('input', { type: 'radio', name: 'which', value: 'all', checked: chosen.length === 0 })
    const choose = () => {
      some.checked = true
    }
    const types = Object.entries(EVENT_TYPES).map(([type, text]) =>
      create(
        'label',
        { class: 'choice' },
        create('input', { type: 'checkbox', name: 'types', value: type, checked: chosen.includes(type), onchange: choose }),
        ` ${text} `,
        create('code', {}, type),
      ),
    )
    const typesOf = (data: FormData) => (all.checked ? null : data.getAll('types').map(String))
    const onSubmit = async (data: FormData) => {
      const listed = typesOf(data)
      if (listed?.length === 0) throw new Error('Choose at least one event.')
      const isSame = webhook !== null && String(listed) === String(webhook.event_types)
      const body = { ...(url.value === '' ? {} : { url: url.value }), ...(isSame ? {} : { event_types: listed }) }
      if (Object.keys(body).length === 0) return
      if (webhook === null) showSecret(await call<Schemas['NewWebhook']>('POST', '/admin/webhooks', { body }), url)
      else {
        await call('PATCH', pathOf`/admin/webhooks/${webhook.id}`, { body })
        tell('The endpoint is changed.')
      }
      watchList()
    }
    openFormDialog(
      {
        title: webhook === null ? 'Add an endpoint' : `Change ${webhook.url}`,
        submit: webhook === null ? 'Add' : 'Change',
        signal,
        onSubmit,
      },
      field('URL', url, webhook === null ? 'https, on the public internet.' : 'Leave it empty to keep the URL. The secret stays.'),
      create('label', { class: 'choice' }, all, ' Every event of orders, also those of later releases'),
      create('label', { class: 'choice' }, some, ' Only these events'),
      create('fieldset', { class: 'scopes' }, create('legend', {}, 'Events'), ...types),
    )
  }

  const askToRotate = (webhook: Webhook) => {
    const text = create('p', {}, 'For 24 hours the current secret signs, too. A second rotation ends the oldest secret at once.')
    const onSubmit = async () => showSecret(await call<Schemas['NewWebhook']>('POST', pathOf`/admin/webhooks/${webhook.id}/rotate`), text)
    openFormDialog({ title: `Give ${webhook.url} another secret?`, submit: 'Rotate', signal, onSubmit }, text)
  }

  /** Asks, calls, and tells the outcome. */
  const change = async (webhook: Webhook, [method, step]: ['POST' | 'DELETE', string], { action, text, done }: Change) => {
    const title = `${action} ${webhook.url}?`
    if (text !== null && !(await confirmAction({ title, text: [text], action }, signal))) return
    await send(method, `${pathOf`/admin/webhooks/${webhook.id}`}${step}`)
    tell(done)
    if (method === 'DELETE') {
      secret.hide(webhook.id)
      location.hash = '#pipeline'
    }
    watchList()
  }

  const buttonsOf = (webhook: Webhook) => {
    const isDisabled = webhook.state === 'disabled'
    const test = { action: 'Test', text: null, done: 'A test event is queued. Its delivery shows the outcome.' }
    const enable = { action: 'Enable', text: null, done: 'The endpoint is enabled.' }
    const disable = {
      action: 'Disable',
      text: 'Its queued deliveries fail. You can deliver them later.',
      done: 'The endpoint is disabled.',
    }
    const remove = {
      ...{ action: 'Remove', text: 'Its deliveries are removed, too. This cannot be undone.', done: 'The endpoint is removed.' },
    }
    return actions(
      !isDisabled && button('Send a test event', () => change(webhook, ['POST', '/test'], test), report),
      button('Change', () => askForEndpoint(openOne() ?? webhook)),
      button('Rotate the secret', () => askToRotate(webhook)),
      isDisabled
        ? button('Enable', () => change(webhook, ['POST', '/enable'], enable), report)
        : button('Disable', () => change(webhook, ['POST', '/disable'], disable), report),
      button('Remove', () => change(webhook, ['DELETE', ''], remove), report),
    )
  }

  const showList = (page: Schemas['WebhookPage']) => {
    shown = page.data
    if (shown.length === 0) {
      replaceChildren(list, note('No endpoint gets webhooks.'))
      return
    }
    const rows = shown.map((webhook) => [
      webhook.url,
      webhook.event_types?.join(', ') ?? 'all events of orders',
      create(
        'span',
        {},
        stateBadge(webhook.state),
        webhook.since === null ? '' : ' since ',
        webhook.since !== null && timeElement(webhook.since),
      ),
      webhook.reason ?? '–',
      webhook.queued,
      webhook.failed,
      link(`#pipeline?webhook=${webhook.id}`, 'Deliveries', webhook.id === openId && 'true'),
    ])
    const rest = page.has_more ? note('More endpoints: ', create('code', {}, 'storefront webhook list')) : null
    replaceChildren(
      list,
      table('Endpoints', ['URL', 'Events', 'State', 'Reason', { number: 'Queued' }, { number: 'Failed' }, 'Open'], rows),
      rest,
    )
  }

  const watchDeliveries = restartable(signal, (until) => {
    if (openId === null) return
    const path = withQuery(pathOf`/admin/webhooks/${openId}/deliveries`, {
      status: parameters.get('deliveries'),
      limit: PAGE,
      cursor: parameters.get('cursor'),
    })
    void poll<Schemas['WebhookDeliveryPage']>(path, { seconds: 3, signal: until, onError: report, onChange: showDeliveries })
  })

  const showDeliveries = (page: Schemas['WebhookDeliveryPage']) => {
    const webhook = openOne()
    const filter = choice({}, [['', 'all'], ...STATUSES], parameters.get('deliveries') ?? '')
    filter.addEventListener('change', () => {
      location.hash = withQuery('#pipeline', { webhook: openId, deliveries: filter.value })
    })
    const again = (body: Schemas['Redelivery'], question: string) => webhook && redeliver(webhook, body, question)
    const all = button(
      'Deliver all failed again',
      () => again({ all_failed: true }, `All ${webhook?.failed} events whose delivery failed are sent again to:`),
      report,
    )
    all.disabled = webhook === undefined || webhook.failed === 0
    const known = ['Event', 'Type', 'Status', { number: 'Attempts' }, 'Queued', 'Delivered', 'Last error']
    const columns = mayDeliver ? [...known, 'Action'] : known
    const rows = page.data.map((delivery) => {
      const { event_id, status } = delivery
      const one = button('Deliver again', () => again({ event_id }, `The event ${event_id} is sent again to:`), report)
      Object.assign(one, { ariaLabel: `Deliver again: ${event_id}`, disabled: status === 'queued' })
      return [...deliveryCells(delivery), ...(mayDeliver ? [one] : [])]
    })
    const older = { webhook: openId, deliveries: parameters.get('deliveries'), cursor: page.next_cursor }
    const next = page.next_cursor !== null && link(withQuery('#pipeline', older), 'Older deliveries')
    replaceChildren(
      deliveries,
      create('h4', {}, webhook === undefined ? 'Deliveries' : `Deliveries to ${webhook.url}`),
      mayDeliver && webhook !== undefined && buttonsOf(webhook),
      create('div', { class: 'filters' }, labelled('Status', filter), mayDeliver && all),
      rows.length === 0 ? note('No deliveries.') : table('Deliveries', columns, rows),
      next,
    )
  }

  const watchList = restartable(signal, (until) => {
    void poll<Schemas['WebhookPage']>('/admin/webhooks?limit=100', {
      seconds: 5,
      signal: until,
      onError: report,
      onChange(page) {
        const before = openOne()
        const isFirst = !isListed
        isListed = true
        showList(page)
        const now = openOne()
        if (isFirst || before?.state !== now?.state || before?.url !== now?.url) watchDeliveries()
      },
    })
  })
  watchList()
  return card
}

interface Change {
  action: string
  /** Asked first; null for what is done at once. */
  text: string | null
  done: string
}

function deliveryCells(delivery: Delivery) {
  return [
    delivery.event_id,
    delivery.type,
    stateBadge(delivery.status),
    delivery.attempts,
    timeElement(delivery.queued_at),
    timeElement(delivery.delivered_at),
    delivery.last_error ?? '–',
  ]
}
