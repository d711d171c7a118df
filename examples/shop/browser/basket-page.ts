import { html, nothing, render, type TemplateResult } from 'lit-html'
import { live } from 'lit-html/directives/live.js'
import type { Money } from '../store.ts'
import { addressOf } from '../view.ts'
import { type Line, readBasket, refreshLines, setQuantity, totals } from './basket.ts'
import { href, money, shop, t, view } from './session.ts'

const MOST_AT_ONCE = 100

/** The basket page, with current prices. */
export async function showBasket(root: HTMLElement): Promise<void> {
  let gone = new Set<string>()
  const draw = () => render(template(readBasket(), gone), root)
  draw()
  for (const change of ['basket', 'storage', 'pageshow']) addEventListener(change, draw)
  gone = await readPrices()
  draw()
}

/** Asks the store for the products of the basket. Returns the ids of those that are no longer sold, or are sold out. */
async function readPrices(): Promise<Set<string>> {
  const ids = readBasket().map(({ id }) => id)
  const { lang, currency } = view
  const parts = Array.from({ length: Math.ceil(ids.length / MOST_AT_ONCE) }, (_, index) =>
    shop.productPage({
      ...{ ids: ids.slice(index * MOST_AT_ONCE, (index + 1) * MOST_AT_ONCE).join(','), limit: MOST_AT_ONCE },
      ...{ lang, currency: currency ?? undefined },
    }),
  )
  // The basket keeps its prices when there is no answer. The store refuses the order if they have changed.
  const pages = await Promise.all(parts).catch(() => null)
  if (pages === null) return new Set()
  const data = pages.flatMap((page) => page.data)
  refreshLines(new Map(data.map(({ id, slug, name, price, image_url: image }) => [id, { slug, name, price, image }])))
  const sold = new Set(data.filter(({ in_stock }) => in_stock).map(({ id }) => id))
  return new Set(ids.filter((id) => !sold.has(id)))
}

function template(lines: readonly Line[], gone: ReadonlySet<string>): TemplateResult {
  if (lines.length === 0) return html`<p>${t('The basket is empty.')}</p><p><a href=${href('/')}>${t('All products')}</a></p>`
  const isMixed = totals(lines).length > 1
  return html`<ul id="basket-lines" class="rows" aria-label=${t('Basket')}>${lines.map((line) => row(line, gone.has(line.id)))}</ul>
${sum(lines)}
${isMixed ? html`<p class="error">${t('Order the products of each currency on their own.')}</p>` : nothing}
${
  isMixed || lines.some(({ id }) => gone.has(id))
    ? nothing
    : html`<p class="actions"><a class="button primary" href=${href('/checkout')}>${t('Continue to delivery')}</a></p>`
}`
}

function row(line: Line, isGone: boolean): TemplateResult {
  const { name, price, quantity } = line
  const change = (event: Event) => setQuantity(line, Number((event.currentTarget as HTMLInputElement).value))
  return html`<li>
${picture(line)}
<span class="grow"><a href=${href(addressOf(line))}>${name}</a><small>${t('{} each', money(price))}</small>
${isGone ? html`<small class="error">${t('Sold out, or not sold in this currency.')}</small>` : nothing}</span>
<input type="number" min="0" max="10000" aria-label=${t('Units of {}', name)} .value=${live(String(quantity))} @change=${change}>
<span class="sum">${money(times(price, quantity))}</span>
<button type="button" class="plain" aria-label=${t('Remove {}', name)} @click=${() => setQuantity(line, 0)}>×</button>
</li>`
}

export function picture({ image }: Pick<Line, 'image'>): TemplateResult {
  return image === null
    ? html`<span class="thumbnail"></span>`
    : html`<img class="thumbnail" src=${image} alt="" referrerpolicy="no-referrer">`
}

export const times = ({ amount, currency }: Money, quantity: number): Money => ({ amount: amount * quantity, currency })

export function sum(lines: readonly Line[]): TemplateResult {
  const text = totals(lines).map(money).join(' + ')
  return html`<p class="total">${t('Total')} <strong id="total">${text}</strong></p>`
}
