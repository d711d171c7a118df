import type { Schemas } from '../store.ts'
import { addToBasket } from './basket.ts'
import { byId, report, t } from './session.ts'

/** Handles adding the product to the basket and choosing a picture. */
export function enhanceProduct(): void {
  const line = JSON.parse(byId('buy').dataset.line ?? '')
  const quantity = byId<HTMLInputElement>('quantity')
  const add = byId<HTMLButtonElement>('add-to-basket')
  quantity.disabled = add.disabled = add.dataset.sold === 'no'
  add.onclick = () => {
    if (!quantity.reportValidity()) return
    addToBasket(line, quantity.valueAsNumber)
    report(t('{} is in the basket.', line.name))
  }
  for (const link of document.querySelectorAll<HTMLAnchorElement>('[data-picture]')) {
    link.onclick = (event) => {
      event.preventDefault()
      const { url, alt, width, height } = JSON.parse(link.dataset.picture ?? '') as Schemas['ProductImage']
      const picture = new Image()
      picture.referrerPolicy = 'no-referrer'
      Object.assign(picture, { src: url, alt: alt || line.name, ...(width === null || height === null ? {} : { width, height }) })
      byId('picture').replaceChildren(picture)
      for (const other of document.querySelectorAll('[data-picture]')) other.ariaCurrent = other === link ? 'true' : null
    }
  }
}
