import { call, pathOf, type Schemas, withQuery } from './api.ts'
import { confirmAction } from './dialog.ts'
import { create, note, replaceChildren, table, timeElement } from './dom.ts'
import { choice } from './form.ts'
import { poll } from './poll.ts'
import type { ScreenContext } from './screen.ts'
import { stateBadge } from './state-badge.ts'

type Webhook = Schemas['Webhook']
type Delivery = Schemas['WebhookDelivery']

const STATUSES = ['queued', 'delivered', 'failed'] as const
const PAGE = 20

/** The endpoints of webhooks. The address has the open one (`webhook`) and the filter of its deliveries (`deliveries`). */
export function webhooksCard({ parameters, signal, may, report, tell }: ScreenContext): HTMLElement {
  const list = create('div')
  const deliveries = create('div')
  const mayDeliver = may('webhooks:write')
  const card = create(
    'section',
    { class: 'card', attributes: { 'aria-labelledby': 'webhooks' } },
    create('h3', { id: 'webhooks' }, 'Webhooks'),
    list,
    deliveries,
  )
  const openId = parameters.get('webhook')
  let shown: Webhook[] = []

  const redeliver = async (webhook: Webhook, body: Schemas['Redelivery'], question: string) => {
    if (!(await confirmAction({ title: 'Deliver again?', text: [question, webhook.url], action: 'Deliver again' }, signal))) return
    try {
      const { queued } = await call<Schemas['Redelivered']>('POST', `/admin/webhooks/${webhook.id}/redeliver`, { body, signal })
      tell(`${queued} ${queued === 1 ? 'event is' : 'events are'} delivered again.`)
      refresh.abort()
      watchDeliveries()
    } catch (error) {
      report(error)
    }
  }

  const showList = (page: Schemas['WebhookPage']) => {
    shown = page.data
    if (shown.length === 0) {
      replaceChildren(list, note('No endpoint gets webhooks. ', create('code', {}, 'storefront webhook add URL'), ' adds one.'))
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
      create(
        'a',
        { href: `#pipeline?webhook=${webhook.id}`, attributes: webhook.id === openId ? { 'aria-current': 'true' } : {} },
        'Deliveries',
      ),
    ])
    const rest = page.has_more ? note('More endpoints: ', create('code', {}, 'storefront webhook list')) : null
    replaceChildren(
      list,
      table('Endpoints', ['URL', 'Events', 'State', 'Reason', { number: 'Queued' }, { number: 'Failed' }, 'Open'], rows),
      rest,
    )
  }

  let refresh = new AbortController()
  const watchDeliveries = () => {
    if (openId === null) return
    refresh = new AbortController()
    const either = AbortSignal.any([signal, refresh.signal])
    const path = withQuery(pathOf`/admin/webhooks/${openId}/deliveries`, {
      status: parameters.get('deliveries'),
      limit: PAGE,
      cursor: parameters.get('cursor'),
    })
    poll<Schemas['WebhookDeliveryPage']>(path, { seconds: 3, signal: either, onError: report, onChange: showDeliveries })
  }

  const showDeliveries = (page: Schemas['WebhookDeliveryPage']) => {
    const webhook = shown.find(({ id }) => id === openId)
    const filter = choice({}, [['', 'all'], ...STATUSES], parameters.get('deliveries') ?? '')
    filter.addEventListener('change', () => {
      location.hash = withQuery('#pipeline', { webhook: openId, deliveries: filter.value })
    })
    const all = create('button', { type: 'button', disabled: webhook === undefined || webhook.failed === 0 }, 'Deliver all failed again')
    all.addEventListener('click', () => {
      if (webhook !== undefined)
        void redeliver(webhook, { all_failed: true }, `All ${webhook.failed} events whose delivery failed are sent again to:`)
    })
    const known = ['Event', 'Type', 'Status', { number: 'Attempts' }, 'Queued', 'Delivered', 'Last error']
    const columns = mayDeliver ? [...known, 'Action'] : known
    const rows = page.data.map((delivery) =>
      deliveryRow(delivery, (button) => {
        button.addEventListener('click', () => {
          if (webhook !== undefined)
            void redeliver(webhook, { event_id: delivery.event_id }, `The event ${delivery.event_id} is sent again to:`)
        })
      }).slice(0, columns.length),
    )
    const next =
      page.next_cursor === null
        ? null
        : create(
            'a',
            { href: withQuery('#pipeline', { webhook: openId, deliveries: parameters.get('deliveries'), cursor: page.next_cursor }) },
            'Older deliveries',
          )
    replaceChildren(
      deliveries,
      create('h4', {}, webhook === undefined ? 'Deliveries' : `Deliveries to ${webhook.url}`),
      create('div', { class: 'filters' }, create('label', {}, 'Status ', filter), mayDeliver && all),
      rows.length === 0 ? note('No deliveries.') : table('Deliveries', columns, rows),
      next,
    )
  }

  poll<Schemas['WebhookPage']>('/admin/webhooks?limit=100', {
    seconds: 5,
    signal,
    onError: report,
    onChange(page) {
      const isFirst = shown.length === 0
      showList(page)
      if (isFirst) watchDeliveries()
    },
  })
  return card
}

function deliveryRow(delivery: Delivery, prepare: (button: HTMLButtonElement) => void) {
  const again = create(
    'button',
    { type: 'button', ariaLabel: `Deliver again: ${delivery.event_id}`, disabled: delivery.status === 'queued' },
    'Deliver again',
  )
  prepare(again)
  return [
    delivery.event_id,
    delivery.type,
    stateBadge(delivery.status),
    delivery.attempts,
    timeElement(delivery.queued_at),
    timeElement(delivery.delivered_at),
    delivery.last_error ?? '–',
    again,
  ]
}
