import { type Static, Type } from 'typebox'
import { entityTag } from '../http/cacheable.ts'
import { normalizeProduct } from './normalize-product.ts'
import { EditedProductSchema } from './product-details.ts'
import type { NewProduct, ProductInput } from './product-input.ts'

const { brand, description, images, attributes, seo, availability_text, translations } = EditedProductSchema.properties

/** What the variants of a group share: texts, images and attributes. See docs/decisions/catalogue-groups.md. */
export const GroupContentSchema = Type.Object({
  name: Type.Union([Type.String(), Type.Null()], { description: 'Null if each variant has a name of its own.' }),
  ...{ description, brand, images, attributes: Type.Required(Type.Object({ attributes })).properties.attributes },
  ...{ seo, availability_text, translations },
})
export type GroupContent = Static<typeof GroupContentSchema>

/** Members that are not empty, by their paths, such as `seo.title`, `attributes.material` and `translations.de.name`. */
export type Members = ReadonlyMap<string, unknown>

type Shared = Pick<ProductInput, 'name' | 'description' | 'brand' | 'images' | 'attributes' | 'seo' | 'availability_text' | 'translations'>

export function membersOf(shared: Omit<Shared, 'name' | 'attributes'> & Partial<GroupContent>): Members {
  const { name = null, description, brand, images, attributes = {}, seo, availability_text, translations = {} } = shared
  const entries: [path: string, value: unknown][] = [
    ['name', name],
    ['description', description || null],
    ['brand', brand],
    ['images', images.length === 0 ? null : images.map(({ url, alt, width, height }) => ({ url, alt, width, height }))],
    ...Object.entries(attributes).map(([attribute, value]): [string, unknown] => [`attributes.${attribute}`, value]),
    ['seo.title', seo.title],
    ['seo.description', seo.description],
    ['availability_text', availability_text],
    ...Object.entries(translations).flatMap(([language, texts]) =>
      Object.entries(texts).map(([text, value]): [string, unknown] => [`translations.${language}.${text}`, value]),
    ),
  ]
  return new Map(entries.filter(([, value]) => value !== null))
}

export function contentOf(members: Members): GroupContent {
  const within = (prefix: string) =>
    [...members].flatMap(([path, value]): [string, unknown][] => (path.startsWith(prefix) ? [[path.slice(prefix.length), value]] : []))
  const languages = [...new Set(within('translations.').map(([path]) => path.slice(0, path.indexOf('.'))))].sort()
  return {
    name: members.get('name') ?? null,
    description: members.get('description') ?? '',
    brand: members.get('brand') ?? null,
    images: members.get('images') ?? [],
    attributes: Object.fromEntries(within('attributes.')),
    seo: { title: members.get('seo.title') ?? null, description: members.get('seo.description') ?? null },
    availability_text: members.get('availability_text') ?? null,
    translations: Object.fromEntries(languages.map((language) => [language, Object.fromEntries(within(`translations.${language}.`))])),
  } as GroupContent
}

/**
 * What a group shares before its first change as a group: of each member that all variants have, the value of more than
 * half of them.
 */
export function commonMembers(variants: readonly Members[]): Members {
  const counts = new Map<string, number>()
  for (const [path, value] of variants.flatMap((members) => [...members])) {
    const key = JSON.stringify([path, value])
    counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  const most = [...counts].filter(([, count]) => count * 2 > variants.length).map(([key]) => JSON.parse(key) as [string, unknown])
  return new Map(most.filter(([path]) => variants.every((members) => members.has(path))))
}

export function groupETag(members: Members): string {
  return entityTag(JSON.stringify([...members].sort(([a], [b]) => (a < b ? -1 : 1))))
}

/** Applies a JSON Merge Patch (RFC 7396) to a content. */
export function patchMembers(members: Members, patch: object): Members {
  const merged = mergePatch(contentOf(members), patch) as NewProduct
  return membersOf(normalizeProduct(merged))
}

function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const merged = new Map<string, unknown>(isObject(target) ? Object.entries(target) : [])
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) merged.delete(name)
    else merged.set(name, mergePatch(merged.get(name), value))
  }
  return Object.fromEntries(merged)
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The paths of the group's members of which a variant has another value. */
export function overridesOf(variant: Members, group: Members): string[] {
  return [...group.keys()].filter((path) => !isSame(variant, group, path)).sort()
}

/** The properties of a variant that follow a change of its group: those that are empty or had the group's value. */
export function followGroup(variant: Members, before: Members, after: Members): Partial<GroupContent> {
  const next = new Map(variant)
  const followed = new Set<string>()
  for (const path of new Set([...before.keys(), ...after.keys()])) {
    const isFollowing = !variant.has(path) || isSame(variant, before, path)
    if (!isFollowing || isSame(variant, after, path)) continue
    // No variant can be without a name.
    if (path === 'name' && !after.has(path)) continue
    if (after.has(path)) next.set(path, after.get(path))
    else next.delete(path)
    followed.add(propertyOf(path))
  }
  return pick(contentOf(next), followed)
}

/** A product with the group's values in the place of its empty members. */
export function fillFrom<T extends ProductInput>(product: T, group: Members): T {
  const own = membersOf(product)
  // Absent translations stay as they are stored.
  const isFilled = (path: string) => !own.has(path) && (product.translations !== undefined || propertyOf(path) !== 'translations')
  const missing = [...group].filter(([path]) => isFilled(path))
  if (missing.length === 0) return product
  const filled = pick(contentOf(new Map([...own, ...missing])), new Set(missing.map(([path]) => propertyOf(path))))
  return { ...product, ...filled, ...(filled.images === undefined ? {} : { image_url: filled.images[0]?.url ?? null }) }
}

function isSame(one: Members, other: Members, path: string): boolean {
  return JSON.stringify(one.get(path)) === JSON.stringify(other.get(path))
}

function propertyOf(path: string): string {
  return path.split('.')[0] ?? path
}

function pick(content: GroupContent, names: ReadonlySet<string>): Partial<GroupContent> {
  return Object.fromEntries(Object.entries(content).filter(([name]) => names.has(name)))
}
