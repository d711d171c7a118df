import { MAX_IMAGES } from '../../src/catalogue/product-rules.ts'
import type { Schemas } from '../kit/api.ts'
import { type Content, html, nothing } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import { cell, createRows } from '../kit/rows.ts'

type Image = Schemas['ProductImage']

/** A product's images as tiles, which are dragged or moved by buttons. Lists show the first one. */
export function productImages(stored: () => readonly Image[], onChange: () => void) {
  const rows = createRows<Image>('images', stored, onChange)
  let address = ''

  const add = () => {
    const urls = address.split(/\s+/).filter((url) => url !== '')
    address = ''
    rows.add(...urls.map((url) => ({ url, alt: '', width: null, height: null })))
  }
  /** The pixel size of a new image is known after it has loaded. */
  const measure = (index: number, { currentTarget }: Event) => {
    const { naturalWidth: width, naturalHeight: height } = currentTarget as HTMLImageElement
    const image = rows.rows()[index]
    const isNew = !stored().some(({ url }) => url === image?.url)
    if (isNew && image?.width === null && width > 0 && height > 0) rows.edit(index, { width, height })
  }
  const tile = ({ url, alt, width, height }: Image, index: number) => {
    const { start, over, drop } = rows.dragging(index)
    return html`<li draggable="true" @dragstart=${start} @dragover=${over} @drop=${drop}>
    <img class="picture" alt=${alt} src=${url} referrerpolicy="no-referrer" @load=${(event: Event) => measure(index, event)}>
    ${cell({ label: t`What image ${index + 1} shows`, value: alt, maxLength: 500 }, (text) => rows.edit(index, { alt: text }))}
    <small class="muted" title=${url}>${index === 0 ? t`In lists. ` : ''}${width === null ? '' : `${width} × ${height}`}</small>
    <div class="actions">
      <button type="button" aria-label=${t`Move image ${index + 1} forward`} ?disabled=${index === 0} @click=${() => rows.move(index, index - 1)}>←</button>
      <button type="button" aria-label=${t`Move image ${index + 1} back`} ?disabled=${index === rows.rows().length - 1} @click=${() => rows.move(index, index + 1)}>→</button>
      <button type="button" aria-label=${t`Remove image ${index + 1}`} @click=${() => rows.remove(index)}>×</button>
    </div>
  </li>`
  }
  const adding = html`<p class="muted">A product has at most ${MAX_IMAGES} images.</p>`
  const view = (): Content =>
    rows.mark(html`
      ${rows.rows().length === 0 ? nothing : html`<ol class="tiles">${rows.rows().map(tile)}</ol>`}
      ${
        rows.rows().length >= MAX_IMAGES
          ? adding
          : html`<div class="row" @keydown=${(event: KeyboardEvent) => {
              if (event.key !== 'Enter') return
              event.preventDefault()
              add()
            }}>${cell({ label: t`Address of an image`, value: address, maxLength: 20_000 }, (text) => {
              address = text
              onChange()
            })}<button type="button" ?disabled=${address.trim() === ''} @click=${add}>Add the image</button></div>
      <small class="muted">The address with https://, where the shop keeps its images. Several at once are separated by blanks.</small>`
      }`)
  return {
    view,
    read: (): Schemas['ProductChange'] => (rows.isChanged() ? { images: [...rows.rows()] } : {}),
    discard: rows.discard,
  }
}
