import { html, nothing, type TemplateResult } from 'lit-html'
import type { Product } from '../store.ts'
import type { View } from '../view.ts'

/**
 * The price. A reduced product also shows the previous price and the lowest price of 30 days, which European law
 * requires.
 */
export function priceOf(
  { t, money }: View,
  { price, compare_at_price: before, lowest_price_30_days: lowest }: Pick<Product, 'price' | 'compare_at_price' | 'lowest_price_30_days'>,
): TemplateResult {
  if (before === null) return html`<strong>${money(price)}</strong>`
  const note = lowest === null ? nothing : html`<small>${t('Lowest price of the last 30 days: {}', money(lowest))}</small>`
  return html`<strong>${money(price)}</strong> <span class="hidden">${t('instead of')} </span><s>${money(before)}</s>${note}`
}

/** The name of an attribute in the usual spelling. */
export const words = (name: string) => name.charAt(0).toUpperCase() + name.slice(1).replaceAll('_', ' ')

/** Links for the path from the list of all products. */
export function trail(view: View, path: readonly { slug: string; name: string }[]): TemplateResult {
  const link = (one: { slug: string; name: string }) =>
    html` › <a href=${view.href(`/categories/${encodeURIComponent(one.slug)}`)}>${view.nameOf(one)}</a>`
  return html`<nav class="trail" aria-label=${view.t('Breadcrumbs')}><a href=${view.href('/')}>${view.t('All products')}</a>${path.map(link)}</nav>`
}
