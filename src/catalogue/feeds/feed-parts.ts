/** A part ends after the product that reaches this size. */
export const MAX_PART_BYTES = 1_048_576

/** A feed's part: some rendered products. */
export interface FeedPart {
  bytes: Buffer
  /** The id of the part's last product. Null for an empty part, which ends the feed. */
  lastId: string | null
}

/** Renders the first products, up to `MAX_PART_BYTES`. */
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

/** The bytes of all parts. While the client takes one, memory holds no other part and no products. */
export function feedParts(first: FeedPart, readAfter: (id: string) => Promise<FeedPart>): AsyncGenerator<Buffer> {
  // A generator keeps its parameters in memory while it runs, so `first` is not a parameter.
  let part = first
  return (async function* () {
    for (;;) {
      yield part.bytes
      if (part.lastId === null) return
      part = await readAfter(part.lastId)
    }
  })()
}
