import { html } from 'lit-html'
import { type Content, nothing } from '../kit/html.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { timeZone } from '../kit/times.ts'
import { addressLines, attributeTexts, type Order } from './order-parts.ts'
import { packedLines } from './packed-lines.ts'

/**
 * Packing slips. They are in English, because the order does not have the customer's language. Only paper shows them,
 * and a page with slips prints nothing else.
 */
export function packingSlips({ signal, update }: Pick<ScreenContext, 'signal' | 'update'>) {
  let printed: readonly Order[] = []
  const set = (orders: readonly Order[]) => {
    printed = orders
    update()
  }
  window.addEventListener('afterprint', () => set([]), { signal })
  const view = () => (printed.length === 0 ? nothing : html`<div class="slips" aria-hidden="true">${printed.map(slip)}</div>`)
  return Object.assign(view, {
    set,
    print(orders: readonly Order[]) {
      set(orders)
      // Prints after the page has rendered the slips.
      setTimeout(() => window.print())
    },
  })
}

function slip(order: Order): Content {
  const { number, created_at, shipping_address, note } = order
  return html`<section>
    <address>${addressLines(shipping_address).map((line) => html`<span>${line}</span>`)}</address>
    <h3>Packing slip of order ${number}</h3>
    <p>Placed ${new Date(created_at).toLocaleDateString('en-GB', { dateStyle: 'long', timeZone: timeZone() })}</p>
    <table>
      <thead><tr><th class="number">Units</th><th>SKU</th><th>Product</th></tr></thead>
      <tbody>${packedLines(order).map(
        ({ units, item }) =>
          html`<tr><td class="number">${units}</td><td>${item.sku}</td>
            <td>${item.name}${attributeTexts(item).map((text) => html`<br>${text}`)}</td></tr>`,
      )}</tbody>
    </table>
    ${note ? html`<p>Note: ${note}</p>` : nothing}
  </section>`
}
