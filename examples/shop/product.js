import { formatMajorUnits, formatMoney, isProblem } from '@storefront/client'
import { addToBasket } from './basket.js'
import { byId, element } from './dom.js'
import { explain } from './problems.js'

/** Shows the page of a product by its slug, as the address has it. A former slug is replaced by the one of now. */
export async function showProduct(shop, encodedSlug, { signal, report, retry }) {
  try {
    const slug = decodeURIComponent(encodedSlug)
    const product = await shop.productBySlug(slug, { signal })
    if (product.slug !== slug) history.replaceState(null, '', `${addressOf(product)}${location.hash}`)
    fill(product)
    describe(product)
    await showVariants(shop, product, signal)
    if (!signal.aborted) byId('product').hidden = false
  } catch (problem) {
    if (signal.aborted) return
    if (isProblem(problem, 'not_found') || problem instanceof URIError) report('There is no such product, or it is no longer sold.')
    else report(explain(problem), retry)
  }
}

/** The address of a product's page. */
export const addressOf = ({ slug }) => `/products/${encodeURIComponent(slug)}`

/** The price; of a reduced product with the one before, and with the lowest one of the last 30 days, as the law of the European Union asks. */
export function priceOf({ price, compare_at_price: before, lowest_price_30_days: lowest }) {
  const now = element('strong', {}, formatMoney(price))
  if (before === null) return [now]
  const hidden = (text) => element('span', { className: 'hidden' }, text)
  return [
    ...[now, ' ', hidden('instead of '), element('s', {}, formatMoney(before))],
    ...(lowest === null ? [] : [element('small', {}, `Lowest price of the last 30 days: ${formatMoney(lowest)}`)]),
  ]
}

function fill(product) {
  const { name, brand, description, in_stock, availability_text, attributes = {}, options } = product
  byId('product-name').textContent = name
  byId('product-brand').textContent = brand ?? ''
  byId('product-categories').replaceChildren(...product.categories.map(({ path }) => element('p', {}, ...breadcrumbs(path))))
  byId('product-price').replaceChildren(...priceOf(product))
  byId('product-stock').textContent = [in_stock ? 'In stock' : 'Sold out', availability_text].filter((text) => text !== null).join(' – ')
  byId('product-description').textContent = description
  byId('product-facts').replaceChildren(
    ...Object.entries({ ...options, ...attributes }).flatMap(([fact, value]) => [
      element('dt', {}, fact.replaceAll('_', ' ')),
      element('dd', {}, textOf(value)),
    ]),
  )
  showImages(product)
  const add = byId('add-to-basket')
  const quantity = byId('quantity')
  quantity.value = 1
  quantity.disabled = add.disabled = !in_stock
  add.onclick = () => {
    if (!quantity.reportValidity()) return
    addToBasket(product, quantity.valueAsNumber)
    byId('message').textContent = `${name} is in the basket.`
  }
}

const SIZES = ['XS', 'S', 'M', 'L', 'XL', 'XXL']
const inOrder = (a, b) =>
  SIZES.includes(a) && SIZES.includes(b) ? SIZES.indexOf(a) - SIZES.indexOf(b) : a.localeCompare(b, undefined, { numeric: true })

/** The other variants of the product's group: for each option its values, as links to the variant that differs least in the other options. */
async function showVariants(shop, { group, options }, signal) {
  const rows = byId('product-variants')
  rows.replaceChildren()
  if (group === null) return
  const { data } = await shop.productPage({ group, limit: 100 }, { signal }).catch(() => ({ data: [] }))
  if (signal.aborted) return
  const likeness = (variant) => Object.keys(options).filter((option) => variant.options[option] === options[option]).length
  const link = (option, value) => {
    const [nearest] = data.filter((variant) => variant.options[option] === value).sort((a, b) => likeness(b) - likeness(a))
    const soldOut = nearest.in_stock ? [] : [element('span', { className: 'hidden' }, ', sold out')]
    const made = element('a', { href: addressOf(nearest), ariaCurrent: value === options[option] ? 'true' : null }, value, ...soldOut)
    made.dataset.page = ''
    made.classList.toggle('sold-out', !nearest.in_stock)
    return made
  }
  rows.replaceChildren(
    ...Object.keys(options).map((option) => {
      const values = new Set(data.map((variant) => variant.options[option]).filter((value) => value !== undefined))
      return element('p', {}, element('span', {}, option), ...[...values].sort(inOrder).map((value) => link(option, value)))
    }),
  )
}

/** The categories from the top, each a link to its list. */
function breadcrumbs(path) {
  const links = path.map(({ slug, name }) => element('a', { href: `/?${new URLSearchParams({ category: slug })}` }, name))
  return links.flatMap((link, level) => (level === 0 ? [link] : [' › ', link]))
}

const textOf = (value) => (value === true ? 'yes' : value === false ? 'no' : Array.isArray(value) ? value.join(', ') : String(value))

/** The images in the shop's order, one of them large. Their sizes keep the page from moving while they load. */
function showImages({ name, images }) {
  const large = byId('product-image')
  const small = byId('product-images')
  const show = (image, chosen) => {
    large.replaceChildren(imageOf(image, name))
    for (const button of small.querySelectorAll('button')) button.ariaCurrent = String(button === chosen)
  }
  const buttons = images.map((image, index) => {
    const button = element('button', { type: 'button', onclick: () => show(image, button) }, imageOf(image, `Image ${index + 1}`))
    return button
  })
  small.replaceChildren(...(images.length > 1 ? buttons.map((button) => element('li', {}, button)) : []))
  large.replaceChildren()
  if (images.length > 0) show(images[0], buttons[0])
}

function imageOf({ url, alt, width, height }, fallback) {
  const size = width === null || height === null ? {} : { width, height }
  return element('img', { src: url, alt: alt || fallback, referrerPolicy: 'no-referrer', ...size })
}

/** What search engines read: title, description, the address, and the product in the words of schema.org. */
function describe(product) {
  const { name, sku, brand, description, images, seo, price, in_stock } = product
  const url = new URL(addressOf(product), location.href).href
  document.title = seo.title ?? name
  const data = {
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
  const added = [
    element('meta', { name: 'description', content: seo.description ?? description.slice(0, 300).toWellFormed() }),
    element('link', { rel: 'canonical', href: url }),
    element('script', { type: 'application/ld+json' }, JSON.stringify(data)),
  ]
  for (const one of added) one.dataset.ofProduct = ''
  document.head.append(...added)
}
