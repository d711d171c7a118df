import { addressOf } from '../kit/address.ts'
import { api, read, type Schemas } from '../kit/api.ts'
import { confirmAction, openFormDialog, type Question } from '../kit/dialog.ts'
import { follow } from '../kit/follow.ts'
import { field } from '../kit/form.ts'
import { type Content, card, facts, html, menu, note, nothing, time } from '../kit/html.ts'
import { numberText, plural, t } from '../kit/language.ts'
import { resourceList } from '../kit/resource-list.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { stateBadge } from './parts.ts'
import { type ShownSecret, shownSecret } from './secret.ts'

type Webhook = Schemas['Webhook']
type Delivery = Schemas['WebhookDelivery']
type EventType = NonNullable<Schemas['WebhookInput']['event_types']>[number]

const SECONDS = 5
const DELIVERY_SECONDS = 3
const LISTED = 100

const EVENT_TYPES = {
  'storefront.order.created': t`An order was placed`,
  'storefront.order.confirmed': t`An order was confirmed`,
  'storefront.order.shipped': t`An order was shipped`,
  'storefront.order.delivered': t`An order was delivered`,
  'storefront.order.cancelled': t`An order was cancelled`,
  'storefront.order.returned': t`An order was returned`,
  'storefront.order.updated': t`A part, a charge or the payment of an order has changed`,
  'storefront.order.amended': t`An operator has corrected an order`,
  'storefront.product.created': t`A product was created`,
  'storefront.product.updated': t`A product has changed`,
  'storefront.product.archived': t`A product was archived`,
  'storefront.product.restored': t`A product was restored`,
  'storefront.price.changed': t`A price has changed`,
  'storefront.stock.depleted': t`A product is sold out`,
  'storefront.stock.replenished': t`A product is for sale again`,
  'storefront.stock.level_changed': t`The stock of a product has reached a new level`,
} as const satisfies Record<EventType, string>

/** The endpoints that get events. `webhook=ID` shows one endpoint with its deliveries. */
export function webhooks(context: ScreenContext): () => Content {
  const id = context.parameters.get('webhook')
  return id === null ? endpointList(context) : endpointView(id, context)
}

function webhookAddress(id: string): string {
  return addressOf('settings', { section: 'webhooks', webhook: id })
}

function endpointList(context: ScreenContext): () => Content {
  const secret = shownSecret(context)
  const add = () => askForEndpoint(null, context, secret, list.refresh)
  const list = resourceList<Webhook>(
    {
      title: t`Webhooks`,
      screen: 'settings',
      fixed: { section: 'webhooks' },
      seconds: SECONDS,
      ask: (query, init) => api.GET('/admin/webhooks', { ...init, params: { query } }),
      keyOf: ({ id }) => id,
      hrefOf: ({ id }) => webhookAddress(id),
      columns: [
        { title: t`Endpoint`, cell: ({ url }) => url },
        { title: t`Events`, cell: eventsText },
        { title: t`State`, cell: stateCell },
        { title: t`Reason`, cell: ({ reason }) => reason },
        { title: t`Queued`, number: true, cell: ({ queued }) => numberText(queued) },
        { title: t`Failed`, number: true, cell: ({ failed }) => numberText(failed) },
      ],
      words: {
        count: (count) => plural(count, t`${count} endpoint`, t`${count} endpoints`),
        none: t`No endpoint gets webhooks. Add the address of a program that shall know when an order or a product changes.`,
        noMatch: t`No endpoints.`,
      },
      intro: secret,
      actions: () =>
        context.may('webhooks:write') ? html`<button type="button" class="primary" @click=${add}>Add an endpoint</button>` : nothing,
    },
    context,
  )
  return list
}

function eventsText({ event_types: types }: Webhook): string {
  return types?.map((type) => EVENT_TYPES[type as EventType] ?? type).join(', ') ?? t`all events of orders`
}

function stateCell({ state, since }: Webhook): Content {
  return html`${stateBadge(state)}${since === null ? nothing : html` since ${time(since)}`}`
}

/** An endpoint: the events that it gets, and the state of each delivery. */
function endpointView(id: string, context: ScreenContext): () => Content {
  const { signal, may, tell, act, title } = context
  const params = { path: { id } }
  const secret = shownSecret(context)
  let webhook: Webhook | undefined
  const onChange = ({ data }: Schemas['WebhookPage']) => {
    webhook = data.find((one) => one.id === id)
    if (webhook !== undefined) title(webhook.url)
  }
  const ask = (init: object) => api.GET('/admin/webhooks', { ...init, params: { query: { limit: LISTED } } })
  const listed = follow(context, ask, { seconds: SECONDS, onChange })
  const { refresh } = listed
  refresh()

  const change = async (call: () => Promise<unknown>, done: string, question?: Question) => {
    if (question !== undefined && !(await confirmAction(question, signal))) return
    await call()
    if (question?.danger) location.hash = addressOf('settings', { section: 'webhooks' })
    tell(done)
    refresh()
    deliveries.refresh()
  }
  const test = () =>
    change(() => api.POST('/admin/webhooks/{id}/test', { params }), t`A test event is queued. Its delivery shows the outcome.`)
  const enable = () => change(() => api.POST('/admin/webhooks/{id}/enable', { params }), t`The endpoint is enabled.`)
  const disable = () =>
    change(() => api.POST('/admin/webhooks/{id}/disable', { params }), t`The endpoint is disabled.`, {
      title: t`Disable ${webhook?.url}?`,
      text: [t`Its queued deliveries fail. You can deliver them later.`],
      action: t`Disable`,
    })
  const remove = () =>
    change(() => api.DELETE('/admin/webhooks/{id}', { params }).then(() => secret.hide(id)), t`The endpoint is removed.`, {
      title: t`Remove ${webhook?.url}?`,
      text: [t`Its deliveries are removed, too. This cannot be undone.`],
      action: t`Remove`,
      danger: true,
    })
  const rotate = ({ url }: Webhook) => {
    const onSubmit = async () => showSecret(secret, await read(api.POST('/admin/webhooks/{id}/rotate', { params })))
    openFormDialog(
      { title: t`Give ${url} another secret?`, submit: t`Rotate`, signal, onSubmit },
      () => () => html`<p>For 24 hours the current secret signs, too. A second rotation ends the oldest secret at once.</p>`,
    )
  }
  const redeliver = async (body: Schemas['Redelivery'], question: string) => {
    const text = [question, webhook?.url ?? '']
    if (!(await confirmAction({ title: t`Deliver again?`, text, action: t`Deliver again` }, signal))) return
    const { queued } = await read(api.POST('/admin/webhooks/{id}/redeliver', { params, body }))
    tell(plural(queued, t`${queued} event is delivered again.`, t`${queued} events are delivered again.`))
    deliveries.refresh()
  }
  const again = ({
    event_id,
    status,
  }: Delivery) => html`<button type="button" aria-label=${t`Deliver again: ${event_id}`} ?disabled=${status === 'queued'}
    @click=${act(() => redeliver({ event_id }, t`The event ${event_id} is sent again to:`))}>Deliver again</button>`
  const allAgain = (failed: number) =>
    act(() => redeliver({ all_failed: true }, t`All ${failed} events whose delivery failed are sent again to:`))

  const mayChange = may('webhooks:write')
  const deliveries = resourceList<Delivery>(
    {
      title: t`Deliveries`,
      screen: 'settings',
      fixed: { section: 'webhooks', webhook: id },
      seconds: DELIVERY_SECONDS,
      ask: (query, init) => api.GET('/admin/webhooks/{id}/deliveries', { ...init, params: { ...params, query } }),
      keyOf: ({ event_id }) => event_id,
      tabs: [
        { title: t`All`, filters: {} },
        { title: t`Queued`, filters: { status: 'queued' } },
        { title: t`Delivered`, filters: { status: 'delivered' } },
        { title: t`Failed`, filters: { status: 'failed' } },
      ],
      columns: [
        { title: t`Event`, cell: ({ event_id }) => event_id },
        { title: t`Type`, cell: ({ type }) => type },
        { title: t`Status`, cell: ({ status }) => stateBadge(status) },
        { title: t`Attempts`, number: true, cell: ({ attempts }) => attempts },
        { title: t`Queued`, cell: ({ queued_at }) => time(queued_at) },
        { title: t`Delivered`, cell: ({ delivered_at }) => time(delivered_at) },
        { title: t`Last error`, cell: ({ last_error }) => last_error },
        ...(mayChange ? [{ title: t`Action`, cell: again }] : []),
      ],
      words: {
        count: (count) => plural(count, t`${count} delivery`, t`${count} deliveries`),
        none: t`No deliveries yet.`,
        noMatch: t`No deliveries.`,
      },
      actions: () =>
        mayChange && webhook
          ? html`<button type="button" ?disabled=${webhook.failed === 0} @click=${allAgain(webhook.failed)}>Deliver all failed again</button>`
          : nothing,
    },
    context,
  )
  const buttons = (shown: Webhook) => html`
    ${
      shown.state === 'disabled'
        ? html`<button type="button" class="primary" @click=${act(enable)}>Enable</button>`
        : html`<button type="button" @click=${act(test)}>Send a test event</button>`
    }
    <button type="button" @click=${() => askForEndpoint(shown, context, secret, refresh)}>Change</button>
    ${menu(
      t`More`,
      html`<button type="button" @click=${() => rotate(shown)}>Rotate the secret</button>`,
      shown.state === 'disabled' ? nothing : html`<button type="button" @click=${act(disable)}>Disable</button>`,
      html`<button type="button" class="danger" @click=${act(remove)}>Remove</button>`,
    )}`
  const endpoint = (shown: Webhook) => html`
    <div class="title"><h2>${shown.url}</h2><div class="actions">${stateBadge(shown.state)}${mayChange ? buttons(shown) : nothing}</div></div>
    ${secret()}
    ${card(
      t`Endpoint`,
      facts(
        [t`Events`, eventsText(shown)],
        [t`State`, stateCell(shown)],
        [t`Reason`, shown.reason],
        [t`Queued`, numberText(shown.queued)],
        [t`Failed`, numberText(shown.failed)],
      ),
    )}
    ${deliveries()}`
  const content = () => listed.show(() => (webhook === undefined ? note(t`There is no such endpoint.`) : endpoint(webhook)))
  return () => html`<a href=${addressOf('settings', { section: 'webhooks' })}>← All webhooks</a>${content()}`
}

function showSecret(place: ShownSecret, { id, url, secret: text }: Schemas['NewWebhook']): void {
  const hint = t`This secret is shown only this time. Store it where the receiver can read it: the receiver verifies each webhook's signature with it.`
  place.show({ id, what: t`secret`, heading: t`The secret for ${url}`, hint, text })
}

/** A dialog for a new endpoint, or for changing an endpoint. */
function askForEndpoint(webhook: Webhook | null, { signal, tell }: ScreenContext, secret: ShownSecret, refresh: () => void): void {
  const chosen: readonly string[] = webhook?.event_types ?? []
  const onSubmit = async (data: FormData) => {
    const url = String(data.get('url')).trim()
    const listed = data.get('which') === 'all' ? null : (data.getAll('types') as EventType[])
    if (listed?.length === 0) throw new Error(t`Choose at least one event.`)
    if (webhook === null) showSecret(secret, await read(api.POST('/admin/webhooks', { body: { url, event_types: listed } })))
    else {
      const isSame = String(listed) === String(webhook.event_types)
      const body = { ...(url === '' ? {} : { url }), ...(isSame ? {} : { event_types: listed }) }
      if (Object.keys(body).length === 0) return
      const stored = (await read(api.GET('/admin/webhooks', { params: { query: { limit: LISTED } } }))).data
      const now = stored.find(({ id }) => id === webhook.id)
      // The API has no entity tag of an endpoint.
      if (now?.url !== webhook.url || String(now.event_types) !== String(webhook.event_types)) {
        refresh()
        throw new Error(t`The endpoint was changed meanwhile. Close this and look at it again.`)
      }
      await api.PATCH('/admin/webhooks/{id}', { params: { path: { id: webhook.id } }, body })
      tell(t`The endpoint is changed.`)
    }
    refresh()
  }
  const chooseSome = ({ currentTarget }: Event) => {
    const some = (currentTarget as HTMLInputElement).form?.querySelector<HTMLInputElement>('[value=some]')
    if (some) some.checked = true
  }
  const types = Object.entries(EVENT_TYPES).map(
    ([
      type,
      text,
    ]) => html`<label class="choice"><input type="checkbox" name="types" value=${type} ?checked=${chosen.includes(type)} @change=${chooseSome}>
      ${text} <code>${type}</code></label>`,
  )
  const [what, hint] =
    webhook === null
      ? [t`Add an endpoint`, t`https, on the public internet.`]
      : [t`Change ${webhook.url}`, t`Leave it empty to keep the URL. The secret stays.`]
  openFormDialog(
    { title: what, submit: webhook === null ? t`Add` : t`Change`, signal, onSubmit },
    () => () =>
      html`
      ${field(t`URL`, html`<input type="url" name="url" maxlength="2000" ?required=${webhook === null}>`, hint)}
      <label class="choice"><input type="radio" name="which" value="all" ?checked=${chosen.length === 0}> Every event of orders, also those of later releases</label>
      <label class="choice"><input type="radio" name="which" value="some" ?checked=${chosen.length > 0}> Only these events</label>
      <fieldset class="scopes"><legend>Events</legend>${types}</fieldset>`,
  )
}
