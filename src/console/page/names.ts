import { call, type Schemas, type Scope, withQuery } from './api.ts'
import { create } from './dom.ts'

type Actor = Schemas['StatusChange']['actor'] | Schemas['OrderNote']['author'] | Schemas['Activity']['actor']

/** Who made a change, with names where the operator may read them. */
export interface Names {
  /** The name replaces the id when it is known. `customer`: the id of the account that the page is about. */
  actorElement(actor: Actor, customer?: string): HTMLElement
  /** The operators and keys that are known, by id. */
  list(): Promise<ReadonlyMap<string, string>>
  /** Asks again for the next name: an operator or a key is new. */
  forget(): void
}

const WORDS = { admin: 'operator', key: 'key', customer: 'customer' } as const
/** The most on a page of the API. */
const LIMIT = 100
/** The most pages read of each list. Names beyond them are shown as ids. */
const MAX_PAGES = 10

/** Asks for operators and keys once, when the first of them is shown. */
export function createNames(may: (scope: Scope) => boolean): Names {
  let names: Promise<ReadonlyMap<string, string>> | null = null

  /** A failure leaves the ids, and the next element asks again. */
  function load(): Promise<ReadonlyMap<string, string>> {
    names ??= readNames().catch(() => {
      names = null
      return new Map()
    })
    return names
  }

  return {
    forget: () => {
      names = null
    },
    list: async () => (may('access:write') ? load() : new Map()),
    actorElement(actor, customer) {
      if (actor.type === 'system') return create('span', {}, 'the store')
      const { type, id } = actor
      if (id !== null && id === customer) return create('span', {}, 'the customer')
      const name = create('span', {}, id)
      const element = create('span', {}, `${WORDS[type]} `, name)
      if (type !== 'customer' && id !== null && may('access:write')) {
        void load().then((known) => {
          const text = known.get(id)
          if (text === undefined) return
          name.textContent = text
          name.title = id
        })
      }
      return element
    },
  }
}

async function readNames(): Promise<ReadonlyMap<string, string>> {
  const [operators, keys] = await Promise.all([
    readPages<Schemas['Operator']>('/admin/operators'),
    readPages<Schemas['ApiKey']>('/admin/api-keys'),
  ])
  return new Map([...operators.map(({ id, email }) => [id, email] as const), ...keys.map(({ id, name }) => [id, name] as const)])
}

async function readPages<T>(path: string): Promise<T[]> {
  const items: T[] = []
  let cursor: string | null = null
  for (let page = 0; page < MAX_PAGES; page++) {
    const { data, next_cursor }: { data: T[]; next_cursor: string | null } = await call('GET', withQuery(path, { limit: LIMIT, cursor }))
    items.push(...data)
    cursor = next_cursor
    if (cursor === null) break
  }
  return items
}
