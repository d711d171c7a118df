import { api, read, type Schemas, type Scope } from './api.ts'
import { type Content, html } from './html.ts'
import { t } from './language.ts'

type Actor = Schemas['StatusChange']['actor'] | Schemas['OrderNote']['author'] | Schemas['Activity']['actor']

/** Names of operators and API keys, if the operator may read them. */
export interface Names {
  /** Who made a change. A known name replaces the id. `customer` is the id of the page's account. */
  actor(actor: Actor, customer?: string | null): Content
  /** The known names of operators and keys, by id. */
  list(): Promise<ReadonlyMap<string, string>>
  /** Makes the next name ask again. Call it when an operator or a key is new. */
  forget(): void
}

const WORDS = { admin: t`operator`, key: t`key`, customer: t`customer` }
/** Largest page of the API. */
const LIMIT = 100
/** Largest number of pages that are read of each list. Later names are shown as ids. */
const MAX_PAGES = 10

/** Asks for operators and keys once, when the first name is shown. `update` is called when the names are known. */
export function createNames(may: (scope: Scope) => boolean, update: () => void): Names {
  let known: ReadonlyMap<string, string> = new Map()
  let loading: Promise<ReadonlyMap<string, string>> | null = null

  /** After a failure the ids stay, and the next name asks again. */
  async function load(): Promise<ReadonlyMap<string, string>> {
    try {
      known = await readNames()
      update()
    } catch {
      loading = null
    }
    return known
  }

  return {
    forget: () => {
      loading = null
    },
    list: async () => {
      if (!may('access:write')) return known
      loading ??= load()
      return loading
    },
    actor(actor, customer) {
      if (actor.type === 'system') return t`the store`
      const { type, id } = actor
      if (id !== null && id === customer) return t`the customer`
      if (type !== 'customer' && may('access:write')) loading ??= load()
      return html`${WORDS[type]} <span title=${id ?? ''}>${known.get(id ?? '') ?? id}</span>`
    },
  }
}

async function readNames(): Promise<ReadonlyMap<string, string>> {
  const [operators, keys] = await Promise.all([
    readAll((query) => read(api.GET('/admin/operators', { params: { query } }))),
    readAll((query) => read(api.GET('/admin/api-keys', { params: { query } }))),
  ])
  return new Map([...operators.map(({ id, email }) => [id, email] as const), ...keys.map(({ id, name }) => [id, name] as const)])
}

/** The items of the first `maxPages` pages of a list. */
export async function readAll<T>(
  ask: (query: { limit: number; cursor?: string }) => Promise<{ data: T[]; next_cursor: string | null }>,
  maxPages = MAX_PAGES,
): Promise<T[]> {
  const items: T[] = []
  let cursor: string | null = null
  for (let page = 0; page < maxPages; page++) {
    const { data, next_cursor }: { data: T[]; next_cursor: string | null } = await ask({
      limit: LIMIT,
      ...(cursor === null ? {} : { cursor }),
    })
    items.push(...data)
    cursor = next_cursor
    if (cursor === null) break
  }
  return items
}
