import { hash } from 'node:crypto'
import { MAX_DESCRIPTION_BYTES, MAX_IMAGES, MAX_LENGTHS, MAX_PRODUCT_CATEGORIES } from '../../catalogue/product-rules.ts'
import { type Decimal, toMinor } from './amounts.ts'
import { type Conversion, notForSale } from './conversion.ts'
import { cutText, htmlToLine, htmlToText } from './html-text.ts'

export interface Withheld {
  reason: string
  status?: 'draft'
  published_at?: string
}

export const draft = (reason: string): Withheld => ({ reason, status: 'draft' })

export interface Sale {
  amount: Decimal
  from: Date | null
  until: Date | null
}

/** To mean "no end", some shops write a time that never comes, such as 9999-12-31. */
const NEVER = new Date('2999-12-31T00:00:00Z')

/**
 * A reduction without an end becomes the price. A past sale is left out, and so is one that is not below the regular
 * price, because the other shops then sell at the regular price too. Throws Unmappable.
 */
export function pricesAt(
  regular: Decimal | null,
  sale: Sale | null,
  { now, currency }: { now: Date; currency: string },
): Pick<ShopProduct, 'price' | 'compareAt' | 'sale'> {
  if (sale === null || regular === null || regular === '' || (sale.until !== null && sale.until <= now)) return { price: regular }
  if (toMinor(sale.amount, currency) >= toMinor(regular, currency)) return { price: regular }
  const hasBegun = sale.from === null || sale.from <= now
  const until = sale.until !== null && sale.until < NEVER ? sale.until : null
  return hasBegun && until === null ? { price: sale.amount, compareAt: regular } : { price: regular, sale: { ...sale, until } }
}

/** WordPress writes the addresses of other scripts percent-encoded. */
function decodeSlug(slug: string): string {
  try {
    return decodeURIComponent(slug)
  } catch (error) {
    if (error instanceof URIError) return slug
    throw error
  }
}

/** The group of a product's variants: the product's address, or its id if the address is too long for a group. */
export function groupOf(slug: string | null | undefined, id: string): string {
  const group = decodeSlug(slug ?? '')
  return group === '' || [...group].length > MAX_LENGTHS.group ? id : group
}

/** A sku or group made of `text`: the text, or its digest if a sku cannot have such a text. */
export function toStableIdentifier(text: string): string {
  return /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]{1,64}$/u.test(text) ? text : `digest-${hash('sha256', text).slice(0, 32)}`
}

/** A product or a variant. Its texts may be HTML. */
export interface ShopProduct {
  sku: string
  name: string
  description: string
  categories: string[][]
  brand?: string | null | undefined
  slug?: string | null | undefined
  images: { url?: string | null | undefined; alt?: string | null | undefined }[]
  price: Decimal | null | undefined
  /** The price before a reduction. */
  compareAt?: Decimal | null | undefined
  sale?: Sale | undefined
  group?: string | undefined
  options?: Record<string, string> | undefined
  /** It is null when the product is sold without limit. */
  stock: number | null
  /** The reason why the product is not for sale now, and its status here. Null if it is for sale. */
  withheld?: Withheld | null
  seo?: { title?: string | null | undefined; description?: string | null | undefined } | null | undefined
}

/** Converts a product to a line for the import. Throws NotForSale and Unmappable. */
export function toProductLine(product: ShopProduct, currency: string, label: string, conversion: Conversion): object {
  const { sku, price, compareAt, sale, categories, group, options = {}, stock, seo, withheld } = product
  if (price === null || price === undefined || price === '') return notForSale('it has no price')
  const { reason, status = 'active', published_at = null } = withheld ?? { reason: null }
  if (reason !== null) conversion.note(label, `it is not in the shop yet: ${reason}`)
  const cut = (what: string, text: string, length: number) => {
    const first = cutText(text, length)
    if (first !== text) conversion.note(label, `its ${what} is cut to ${length} characters`)
    return first
  }
  const amount = toMinor(price, currency)
  const before = compareAt === null || compareAt === undefined || compareAt === '' ? 0 : toMinor(compareAt, currency)
  const hasNoTime = sale !== undefined && sale.from !== null && sale.from >= (sale.until ?? NEVER)
  if (hasNoTime) conversion.note(label, 'its sale is left out: it ends before it begins')
  const saleAmount = sale === undefined || hasNoTime ? amount : toMinor(sale.amount, currency)
  const paths = categories
    .map((path) => path.map((name) => cut('category', htmlToLine(name), 100)).filter(Boolean))
    .filter((path) => path.length > 0)
  const brand = cut('brand', htmlToLine(product.brand ?? ''), 100)
  const title = cut('title for search engines', htmlToLine(seo?.title ?? ''), 200)
  const about = cut('description for search engines', htmlToLine(seo?.description ?? ''), 500)
  const slug = toSlug(product.slug, (reason) => conversion.note(label, `its address is left out: ${reason}`))
  if (paths.length > MAX_PRODUCT_CATEGORIES)
    conversion.note(label, `it stays in its first ${MAX_PRODUCT_CATEGORIES} of ${paths.length} categories`)
  const line = {
    sku,
    name: cut('name', htmlToLine(product.name), 300),
    description: cutDescription(htmlToText(product.description), () =>
      conversion.note(label, `its description is cut to ${MAX_DESCRIPTION_BYTES} bytes`),
    ),
    ...(paths.length === 0 ? { category: 'all' } : { categories: paths.slice(0, MAX_PRODUCT_CATEGORIES) }),
    ...(brand === '' ? {} : { brand }),
    ...(slug === null ? {} : { slug }),
    images: toImages(product.images, label, conversion),
    price: { amount, currency },
    source_price: String(price),
    ...(before > amount ? { compare_at_price: { amount: before, currency } } : {}),
    ...(group === undefined ? {} : { group, options: toOptions(options, cut) }),
    ...(title === '' && about === '' ? {} : { seo: { title: title || null, description: about || null } }),
    stock: stock === null ? null : Math.max(0, stock),
    // These properties are always present, so a later file can publish a product and end a sale.
    ...{ status, published_at },
    sale_prices: saleAmount < amount ? [{ amount: saleAmount, currency, from: sale?.from ?? null, until: sale?.until ?? null }] : [],
  }
  conversion.claimSku(sku.normalize('NFC').trim())
  return line
}

/** Returns null for an address that the store cannot keep. The store then makes one from the name. */
function toSlug(written: string | null | undefined, onLeftOut: (reason: string) => void): string | null {
  if (!written) return null
  const slug = decodeSlug(written)
  const reason = [...slug].length > MAX_LENGTHS.slug ? `it has more than ${MAX_LENGTHS.slug} characters` : 'it has no letter and no digit'
  if ([...slug].length <= MAX_LENGTHS.slug && /[\p{L}\p{N}]/u.test(slug)) return slug
  onLeftOut(reason)
  return null
}

function cutDescription(text: string, onCut: () => void): string {
  if (Buffer.byteLength(text) <= MAX_DESCRIPTION_BYTES) return text
  onCut()
  return new TextDecoder().decode(Buffer.from(text).subarray(0, MAX_DESCRIPTION_BYTES), { stream: true })
}

function toOptions(options: Record<string, string>, cut: (what: string, text: string, length: number) => string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(options).map(([name, value]) => [cut('option', htmlToLine(name), 40), cut('option', htmlToLine(value), 100)]),
  )
}

function toImages(images: ShopProduct['images'], label: string, conversion: Conversion): object[] {
  const known = new Map<string, object>()
  for (const { url, alt } of images) {
    if (!url) continue
    // Shops also write addresses without a scheme, or with blanks.
    const written = url.trim().replace(/^\/\//, 'https://')
    if (!/^https?:\/\//i.test(written) || !URL.canParse(written)) {
      conversion.note(label, `its image ${written} is left out: it is no address with https://`)
      continue
    }
    const { href } = new URL(written)
    if (!known.has(href)) known.set(href, { url: href, alt: cutText(htmlToLine(alt ?? ''), MAX_LENGTHS['alt of an image']) })
  }
  if (known.size > MAX_IMAGES) conversion.note(label, `it keeps its first ${MAX_IMAGES} of ${known.size} images`)
  return [...known.values()].slice(0, MAX_IMAGES)
}
