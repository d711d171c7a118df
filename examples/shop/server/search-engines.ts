import type { ProductDetails, Storefront } from '../store.ts'
import { formatMajorUnits } from '../store.ts'
import { addressOf } from '../view.ts'
import { escapeHtml } from './to-text.ts'

/** Largest number of addresses in a sitemap (sitemaps.org). */
const PART_SIZE = 50_000
const KEPT_MS = 3_600_000
const XMLNS = 'http://www.sitemaps.org/schemas/sitemap/0.9'

/** The description of a product in the terms of schema.org. */
export function productData(product: ProductDetails, url: string): object {
  const { name, sku, brand, description, images, price, in_stock } = product
  return {
    ...{ '@context': 'https://schema.org', '@type': 'Product', name, sku, description, url },
    ...(images.length === 0 ? {} : { image: images.map((image) => image.url) }),
    ...(brand === null ? {} : { brand: { '@type': 'Brand', name: brand } }),
    offers: {
      '@type': 'Offer',
      url,
      price: formatMajorUnits(price),
      priceCurrency: price.currency,
      availability: `https://schema.org/${in_stock ? 'InStock' : 'OutOfStock'}`,
    },
  }
}

export function robots(origin: string): string {
  const pages = ['/basket', '/checkout', '/orders', '/order'].map((path) => `Disallow: ${path}`)
  return `User-agent: *\n${pages.join('\n')}\n\nSitemap: ${origin}/sitemap.xml\n`
}

/** The sitemap of these paths, or its part `part`, counted from 1. Null when that part does not exist. */
export function sitemap(paths: readonly string[], origin: string, part: number | null, partSize = PART_SIZE): string | null {
  const parts = Math.ceil(paths.length / partSize)
  if (part === null && parts > 1) {
    const entries = Array.from(
      { length: parts },
      (_, index) => `<sitemap><loc>${escapeHtml(origin)}/sitemap-${index + 1}.xml</loc></sitemap>`,
    )
    return document('sitemapindex', entries)
  }
  const listed = part === null ? paths : paths.slice((part - 1) * partSize, part * partSize)
  if (part !== null && listed.length === 0) return null
  return document(
    'urlset',
    listed.map((path) => `<url><loc>${escapeHtml(origin + path)}</loc></url>`),
  )
}

function document(name: string, entries: readonly string[]): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n<${name} xmlns="${XMLNS}">\n${entries.join('\n')}\n</${name}>\n`
}

/**
 * The paths of all pages for search engines, or null until they were read once. They are read again an hour after the
 * last reading has ended. Until then, and while a reading fails, the last paths stay.
 */
export function createPathList(store: Storefront): () => readonly string[] | null {
  let known: readonly string[] | null = null
  let isReading = false
  let readAt = Number.NEGATIVE_INFINITY

  const read = async () => {
    isReading = true
    const paths = ['/']
    for (const { slug } of (await store.categories()).data) paths.push(`/categories/${encodeURIComponent(slug)}`)
    for await (const product of store.products({ limit: 100, sort: 'created_at' })) paths.push(addressOf(product))
    known = paths
    readAt = Date.now()
  }
  return () => {
    if (!isReading && Date.now() - readAt > KEPT_MS) {
      read()
        .catch((error: unknown) => console.error('shop: the sitemap could not be read:', error))
        .finally(() => {
          isReading = false
        })
    }
    return known
  }
}
