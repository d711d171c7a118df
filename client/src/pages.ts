/** A page of a list. */
export interface Page<Item> {
  data: Item[]
  has_more: boolean
  next_cursor: string | null
}

/** The items of a list, page after page. A page is loaded when its first item is read. */
export async function* eachItem<Item>(load: (cursor: string | undefined) => Promise<Page<Item>>): AsyncGenerator<Item, void, void> {
  let cursor: string | undefined
  do {
    const page = await load(cursor)
    yield* page.data
    cursor = page.has_more ? (page.next_cursor ?? undefined) : undefined
  } while (cursor !== undefined)
}
