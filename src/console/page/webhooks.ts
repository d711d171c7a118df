import { call, pathOf, poll, restartable, type Schemas, withQuery } from './api.ts'
import { confirmAction } from './dialog.ts'
import { button, create, link, note, replaceChildren, table, timeElement } from './dom.ts'
import { choice, labelled } from './form.ts'
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
    const { queued } = await call<Schemas['Redelivered']>('POST', `/admin/webhooks/${webhook.id}/redeliver`, { body, signal })
    tell(`${queued} ${queued === 1 ? 'event is' : 'events are'} delivered again.`)
    watchDeliveries()
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
    const webhook = shown.find(({ id }) => id === openId)
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
      create('div', { class: 'filters' }, labelled('Status', filter), mayDeliver && all),
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
