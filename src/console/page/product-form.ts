import { isRefusal, type Schemas, send } from './api.ts'
import { create } from './dom.ts'
import { sendForm } from './form.ts'
import { FIELD_NAMES, type Product, type ProductTexts, productFields, readProduct, textsOf } from './product-fields.ts'
import type { ScreenContext } from './screen.ts'

/** A product with the entity tag of its state. */
export interface TaggedProduct {
  product: Product
  etag: string
}

export async function readTagged(answer: Response): Promise<TaggedProduct> {
  return { product: (await answer.json()) as Product, etag: answer.headers.get('etag') ?? '' }
}

/**
 * Edits a product from the state that the operator sees. When another operator was faster, nothing is saved: the form gets the new state, keeps
 * what this operator has changed, and says which of it differs.
 */
export function productForm(
  given: TaggedProduct,
  { signal, tell, onState }: Pick<ScreenContext, 'signal' | 'tell'> & { onState: (state: TaggedProduct) => void },
): HTMLElement {
  let { product, etag } = given
  const fields = productFields(textsOf(product))

  async function save(): Promise<void> {
    const texts = fields.read()
    const body = changesOf(product, texts)
    if (Object.keys(body).length === 0) return tell('Nothing has changed.')
    try {
      const answer = await send('PATCH', `/admin/products/${product.id}`, { body, ifMatch: etag })
      ;({ product, etag } = await readTagged(answer))
      fields.write(textsOf(product))
      tell(`${product.name} is saved.`)
      onState({ product, etag })
    } catch (error) {
      if (!isRefusal(error, 'precondition_failed')) throw error
      throw new Error(await reload(texts))
    }
  }

  /** Takes over the present state, except for what the operator has changed. Returns the explanation. */
  async function reload(texts: ProductTexts): Promise<string> {
    const before = textsOf(product)
    ;({ product, etag } = await readTagged(await send('GET', `/admin/products/${product.id}`)))
    const now = textsOf(product)
    const changed = FIELD_NAMES.filter((name) => now[name] !== before[name])
    const kept = FIELD_NAMES.filter((name) => texts[name] !== before[name])
    fields.write(Object.fromEntries(changed.filter((name) => !kept.includes(name)).map((name) => [name, now[name]])))
    const news = changed.map((name) => `${name} is ${shorten(now[name])}${kept.includes(name) ? ` (yours: ${shorten(texts[name])})` : ''}`)
    const what = news.length === 0 ? '' : ` Now ${news.join(', ')}.`
    onState({ product, etag })
    return `Nothing was saved: the product was changed meanwhile.${what} Your input is kept; save again to replace that.`
  }

  return sendForm({ submit: 'Save', signal, onSubmit: save }, create('h3', {}, 'Product'), ...fields.elements)
}

/** The fields that differ, so that another operator's change of other fields is not undone. */
function changesOf(product: Product, texts: ProductTexts): Schemas['ProductChange'] {
  const saved: Schemas['ProductChange'] = readProduct(textsOf(product))
  const changes = Object.entries(readProduct(texts)).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(saved[name as keyof typeof saved]),
  )
  return Object.fromEntries(changes)
}

function shorten(text: string): string {
  return text.length > 60 ? `“${text.slice(0, 60)}…”` : `“${text}”`
}
