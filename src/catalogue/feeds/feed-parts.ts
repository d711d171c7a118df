/** A part ends with the product that brings it to this, in bytes. */
export const MAX_PART_BYTES = 1_048_576

/** Some products of a feed, rendered. */
export interface FeedPart {
  bytes: Buffer
  /** The last product that it has; null: no products follow. */
  lastId: string | null
}

/** The first ones of `products`. `hasMore`: whether others may follow the last one. */
export function renderPart<T extends { id: string }>(products: readonly T[], hasMore: boolean, render: (product: T) => string): FeedPart {
  const texts: Buffer[] = []
  let sizeBytes = 0
  for (const product of products) {
    const text = Buffer.from(render(product))
    texts.push(text)
    sizeBytes += text.length
    if (sizeBytes >= MAX_PART_BYTES) break
  }
  const isWhole = texts.length === products.length && !hasMore
  return { bytes: Buffer.concat(texts), lastId: isWhole ? null : (products[texts.length - 1]?.id ?? null) }
}

/** The bytes of all parts. While the client takes one, no other part and no products are in memory. */
export function feedParts(first: FeedPart, readAfter: (id: string) => Promise<FeedPart>): AsyncGenerator<Buffer> {
  // A generator keeps its parameters as long as it runs, so `first` is not one.
  let part = first
  return (async function* () {
    for (;;) {
      yield part.bytes
      if (part.lastId === null) return
      part = await readAfter(part.lastId)
    }
  })()
}
