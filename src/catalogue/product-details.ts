import { type Static, type TSchema, Type } from 'typebox'
import type { Queryable, Transaction } from '../db/pool.ts'
import { noSql, type Sql, sql } from '../db/sql.ts'
import { notFound } from '../errors.ts'
import { entityTag } from '../http/cacheable.ts'
import { EXAMPLE_PRODUCT_DETAILS } from './examples.ts'
import { PRODUCT_COLUMNS, type ProductRow, ProductSchema, toProduct } from './products.ts'

const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])

export const ImageSchema = Type.Object(
  {
    url: Type.String(),
    alt: Type.String({ description: 'What the image shows, for those who do not see it; empty: unknown.' }),
    width: nullable(Type.Integer({ description: 'Pixels.' })),
    height: nullable(Type.Integer({ description: 'Pixels.' })),
  },
  { title: 'ProductImage' },
)
export type Image = Static<typeof ImageSchema>

const { variants: _, ...listed } = ProductSchema.properties

export const ProductDetailsSchema = Type.Object(
  {
    ...listed,
    images: Type.Array(ImageSchema, { description: 'In the order of the shop; the first one is `image_url`.' }),
    seo: Type.Object(
      { title: nullable(Type.String()), description: nullable(Type.String()) },
      { description: 'For the head of the page; null: the shop takes name and description.' },
    ),
    availability_text: nullable(Type.String({ description: 'Such as "Ships in 3 days".' })),
  },
  { title: 'ProductDetails', description: 'A product with all that its page shows.', examples: [EXAMPLE_PRODUCT_DETAILS] },
)
export type ProductDetails = Static<typeof ProductDetailsSchema>

interface DetailsRow extends ProductRow {
  images: Image[] | null
  seo_title: string | null
  seo_description: string | null
  availability_text: string | null
}

/** The product that `condition` names, null also for an archived one. */
async function findDetails(db: Queryable, condition: Sql, locking: Sql = noSql): Promise<ProductDetails | null> {
  const { rows } = await db.query<DetailsRow>(
    sql`select ${PRODUCT_COLUMNS}, page.images, page.seo_title, page.seo_description, page.availability_text
    from products as product
    left join product_pages as page on page.product_id = product.id
    where ${condition} and product.archived_at is null
    ${locking}`,
  )
  return rows[0] === undefined ? null : toDetails(rows[0])
}

/** Throws `not_found`, also for an archived product. */
export async function getProduct(db: Queryable, id: string): Promise<ProductDetails> {
  return present(await findDetails(db, sql`product.id = ${id}`))
}

/** As `getProduct`, and locks the product. */
export async function getProductForUpdate(tx: Transaction, id: string): Promise<ProductDetails> {
  return present(await findDetails(tx, sql`product.id = ${id}`, sql`for update of product`))
}

/** The product that has this slug or had it. Another spelling of a slug means the same. Throws `not_found`. */
export async function getProductBySlug(db: Queryable, slug: string): Promise<ProductDetails> {
  return present(await findDetails(db, sql`product.id = (select product_id from product_slugs where slug = slug_of(${slug}))`))
}

function present(product: ProductDetails | null): ProductDetails {
  if (product === null) throw notFound('product')
  return product
}

/** Stores what only the page of a product shows. */
export async function savePage(tx: Transaction, productId: string, page: Pick<ProductDetails, 'images' | 'seo' | 'availability_text'>) {
  const images = storedImages(page.images)
  const { seo, availability_text } = page
  if ([images, seo.title, seo.description, availability_text].every((value) => value === null)) {
    await tx.query(sql`delete from product_pages where product_id = ${productId}`)
    return
  }
  await tx.query(
    sql`insert into product_pages (product_id, images, seo_title, seo_description, availability_text)
     values (${productId}, ${JSON.stringify(images ?? [])}, ${seo.title}, ${seo.description}, ${availability_text})
     on conflict (product_id) do update set
       images = excluded.images,
       seo_title = excluded.seo_title,
       seo_description = excluded.seo_description,
       availability_text = excluded.availability_text`,
  )
}

function toDetails(row: DetailsRow): ProductDetails {
  return {
    ...toProduct(row),
    images: imagesOf(row.image_url, row.images),
    seo: { title: row.seo_title, description: row.seo_description },
    availability_text: row.availability_text,
  }
}

/** `image_url` is the first image, also where the previous release has changed it since `images` were stored. */
export function imagesOf(imageUrl: string | null, stored: readonly Image[] | null): Image[] {
  if (imageUrl === null) return []
  const [first = toImage(imageUrl), ...others] = stored ?? []
  return [first.url === imageUrl ? first : toImage(imageUrl), ...others]
}

export function toImage(url: string): Image {
  return { url, alt: '', width: null, height: null }
}

/** What `product_pages` stores: null for what `image_url` has already. */
export function storedImages(images: readonly Image[]): readonly Image[] | null {
  const [first, ...others] = images
  const isPlain = first === undefined || (others.length === 0 && first.alt === '' && first.width === null && first.height === null)
  return isPlain ? null : images
}

/** The entity tag of one product, without quotes. It differs after every change of the product. */
export function productETag(product: ProductDetails): string {
  return entityTag(JSON.stringify(product))
}
