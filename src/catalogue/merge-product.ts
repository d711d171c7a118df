import { isReduced } from './normalize-product.ts'
import type { OfferedPrice } from './offered-prices.ts'
import { imagesOf, type StoredProduct } from './product-details.ts'
import type { ProductInput } from './product-input.ts'
import type { Translations } from './translations.ts'

/**
 * Whether a change names a column: a property, or a part of one such as `seo_title`, `name:de`, `price:USD` or
 * `compare_at_price:USD`.
 */
export type NamesColumn = (column: string) => boolean

/**
 * Fills properties of `given` from the stored product if the change does not name their column. Absent categories,
 * slug, stock, translations and prices stay absent, so the stored ones are kept. If only a first image is given, it
 * replaces the first stored image.
 */
export function mergeProduct<T extends ProductInput>(stored: StoredProduct, given: T, names: NamesColumn): T {
  const pick = <V>(column: string, named: V, kept: V) => (names(column) ? named : kept)
  const images = names('images') ? given.images : names('image_url') ? imagesOf(given.image_url, stored.images) : stored.images
  const { compare_at_price: before, seo } = stored
  const { translations, prices } = given
  return {
    ...given,
    description: pick('description', given.description, stored.description),
    brand: pick('brand', given.brand, stored.brand),
    image_url: pick('image_url', given.image_url, images[0]?.url ?? null),
    images,
    group: pick('group', given.group, stored.group),
    options: pick('options', given.options, stored.options),
    attributes: pick('attributes', given.attributes, stored.attributes ?? {}),
    // A price that is not below the stored one ends a reduction, so programs that only send prices are not refused.
    compare_at_price: pick('compare_at_price', given.compare_at_price, before !== null && isReduced(given.price, before) ? before : null),
    seo: {
      title: pick('seo_title', given.seo.title, seo.title),
      description: pick('seo_description', given.seo.description, seo.description),
    },
    availability_text: pick('availability_text', given.availability_text, stored.availability_text),
    ...(translations === undefined ? {} : { translations: mergeTranslations(stored.translations, translations, names) }),
    ...(prices === undefined ? {} : { prices: mergePrices(stored.prices, { ...given, prices }, names) }),
  }
}

function mergeTranslations(stored: Translations, named: Translations, names: NamesColumn): Translations {
  const languages = [...new Set([...Object.keys(stored), ...Object.keys(named)])].map((language) => {
    const kept = Object.entries(stored[language] ?? {}).filter(([name]) => !names(`${name}:${language}`))
    return [language, { ...Object.fromEntries(kept), ...named[language] }] as const
  })
  return Object.fromEntries(languages.filter(([, texts]) => Object.keys(texts).length > 0))
}

/** Merges named and stored prices. The product's own price replaces a stored price in its currency. */
function mergePrices(
  stored: readonly OfferedPrice[],
  { price, prices }: Pick<ProductInput, 'price'> & { prices: readonly OfferedPrice[] },
  names: NamesColumn,
): OfferedPrice[] {
  const merged = prices.map((offered) => {
    const before = stored.find(({ currency }) => currency === offered.currency)?.compare_at ?? null
    const isKept = !names(`compare_at_price:${offered.currency}`) && before !== null && before > offered.amount
    return isKept ? { ...offered, compare_at: before } : offered
  })
  return [...merged, ...stored.filter(({ currency }) => currency !== price.currency && !names(`price:${currency}`))]
}
