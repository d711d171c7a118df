import type { Schemas, Storefront } from '../store.ts'

/** What every page shows besides its content. */
export interface Menu {
  categories: readonly Schemas['Category'][]
  /** The configured currencies in which the store sells something. */
  currencies: readonly string[]
}

export const NO_MENU: Menu = { categories: [], currencies: [] }
const KEPT_MS = 60_000

/**
 * Reads the menu once a minute. While the store does not answer, the last menu stays until it is older than `mustBeMs`.
 */
export function createMenu(store: Storefront, wanted: readonly string[]) {
  let menu: Menu | null = null
  let reading: Promise<void> | null = null
  let readAt = Number.NEGATIVE_INFINITY

  const read = async () => {
    const isSold = async (currency: string) => (await store.productPage({ currency, limit: 1 })).data.length > 0
    const [{ data }, sold] = await Promise.all([store.categories(), Promise.all(wanted.map(isSold))])
    menu = { categories: data, currencies: wanted.filter((_, index) => sold[index]) }
    readAt = Date.now()
  }
  return async ({ mustBeMs = Number.POSITIVE_INFINITY } = {}): Promise<Menu> => {
    const ageMs = Date.now() - readAt
    if (menu === null || ageMs >= Math.min(KEPT_MS, mustBeMs)) {
      reading ??= read().finally(() => {
        reading = null
      })
      await reading.catch((error: unknown) => {
        if (menu === null || ageMs >= mustBeMs) throw error
      })
    }
    return menu as Menu
  }
}
