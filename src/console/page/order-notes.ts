import { call, pathOf, type Schemas, send } from './api.ts'
import { create, note, replaceChildren, timeElement } from './dom.ts'
import { field, sendForm } from './form.ts'
import type { ScreenContext } from './screen.ts'

/** More are in the API, page by page. */
const SHOWN = 100

/** What operators have written about an order, newest first, and a form for another note. */
export function orderNotes(
  orderId: string,
  { signal, may, names, report, tell }: Pick<ScreenContext, 'signal' | 'may' | 'names' | 'report' | 'tell'>,
): HTMLElement {
  const list = create('ol', { class: 'notes' })
  const text = create('textarea', { name: 'text', maxLength: 2_000, rows: 3, required: true })

  async function load(): Promise<void> {
    const page = await call<Schemas['OrderNotePage']>('GET', `${pathOf`/admin/orders/${orderId}/notes`}?limit=${SHOWN}`, { signal })
    const items = page.data.map((each) =>
      create('li', {}, timeElement(each.created_at), ' by ', names.actorElement(each.author), create('p', {}, each.text)),
    )
    replaceChildren(list, ...items, page.has_more ? create('li', {}, `Only the newest ${SHOWN} are shown.`) : null)
  }

  async function add(): Promise<void> {
    await send('POST', pathOf`/admin/orders/${orderId}/notes`, { body: { text: text.value } })
    text.value = ''
    tell('The note is saved.')
    await load()
  }

  load().catch((error: Error) => {
    if (!signal.aborted) report(error)
  })
  return create(
    'section',
    { class: 'card' },
    create('h3', {}, 'Notes'),
    note('For operators only: the customer never sees them.'),
    may('orders:move') && sendForm({ submit: 'Add note', signal, onSubmit: add }, field('New note', text)),
    list,
  )
}
