/** A part ends with the product that brings it to this, in bytes. */
export const MAX_PART_BYTES = 1_048_576

/** Some products of a feed, rendered. */
export interface FeedPart {
  bytes: Buffer
  /** The last product that it has; null: it has none, and none follow. */
  lastId: string | null
}

/** The first ones of `products`. */
export function renderPart<T extends { id: string }>(products: readonly T[], render: (product: T) => string): FeedPart {
  const texts: Buffer[] = []
  let sizeBytes = 0
  for (const product of products) {
    const text = Buffer.from(render(product))
    texts.push(text)
    sizeBytes += text.length
    if (sizeBytes >= MAX_PART_BYTES) break
  }
  return { bytes: Buffer.concat(texts), lastId: products[texts.length - 1]?.id ?? null }
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
