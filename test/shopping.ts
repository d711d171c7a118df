import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from './eventually.ts'
import { queryFolder } from './lake-harness.ts'

/** A customer who reaches the store over the network. */
export interface Shopper {
  /** Orders one unit of the product and returns the order's id, null when the store did not answer 201. */
  order(productId: string): Promise<string | null>
}

export async function register(url: string, email = `${crypto.randomUUID()}@example.com`): Promise<Shopper> {
  const account = { email, password: 'a long enough passphrase' }
  const { status, json } = await post(`${url}/auth/register`, account)
  if (status !== 201) throw new Error(`register: ${status} ${JSON.stringify(json)}`)
  const token = json.access_token
  return {
    async order(productId) {
      const answer = await post(`${url}/orders`, { items: [{ product_id: productId, quantity: 1 }] }, token).catch(() => null)
      return answer?.status === 201 ? (answer.json.id ?? null) : null
    },
  }
}

export interface Answer {
  what: string
  isGood: boolean
  /** Milliseconds since the moment at which it was due. */
  ms: number
}

/** Calls each of these at a steady pace, whatever the answers take, until it is stopped. */
export function startShopping(calls: Record<string, () => Promise<boolean>>, paceMs: number) {
  const answers: Promise<Answer>[] = []
  let isStopped = false
  const timed = async (what: string, call: () => Promise<boolean>, dueAt: number) => {
    const isGood = await call().catch(() => false)
    return { what, isGood, ms: performance.now() - dueAt }
  }
  const running = (async () => {
    for (let dueAt = performance.now(); !isStopped; dueAt += paceMs) {
      await delay(Math.max(0, dueAt - performance.now()))
      answers.push(...Object.entries(calls).map(([what, call]) => timed(what, call, dueAt)))
    }
  })()
  return {
    /** Ends a part, and returns its answers. */
    async takeAnswers(): Promise<Answer[]> {
      return Promise.all(answers.splice(0))
    },
    /** The answers since the last part. */
    async stop(): Promise<Answer[]> {
      isStopped = true
      await running
      return Promise.all(answers)
    },
  }
}

async function post(url: string, body: unknown, token?: string): Promise<{ status: number; json: { id?: string; access_token?: string } }> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
    body: JSON.stringify(body),
  })
  return { status: answer.status, json: (await answer.json()) as { id?: string; access_token?: string } }
}

/** Products to order in turn: no single one has stock for all orders of a test. */
export async function listProducts(url: string): Promise<string[]> {
  const { data } = (await (await fetch(`${url}/products?limit=100`)).json()) as { data: { id: string; in_stock: boolean }[] }
  return data.filter((product) => product.in_stock).map(({ id }) => id)
}

/** Waits until each of these orders has its mail and a row in the lake, and returns every event id of the lake. */
export async function untilDelivered(dataDir: string, orderIds: readonly string[]): Promise<string[]> {
  const wanted = orderIds.map((id) => `${id}.1`)
  const includesAll = (found: readonly string[]) => wanted.every((id) => found.includes(id))
  await eventually(async () => includesAll(mails(dataDir)), { what: 'the mails', timeoutMs: 120_000 })
  return eventually(
    async () => {
      const { rows } = await queryFolder(join(dataDir, 'lake'), 'select event_id from order_events')
      const found = rows.map(([id]) => String(id))
      return includesAll(found) && found
    },
    { what: 'the rows in the lake', timeoutMs: 120_000 },
  )
}

function mails(dataDir: string): string[] {
  try {
    return readdirSync(join(dataDir, 'mail')).map((name) => name.replace(/\.eml$/, ''))
  } catch {
    return []
  }
}
