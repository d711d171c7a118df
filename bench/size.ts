// A small and a large shop, called in turns, to see which requests cost more in the large one. With the defaults it
// takes five minutes. Options: --products 200000 --orders 200000 --small-products 1000 --small-orders 2000 --rounds 5
// --only facets (a part of a row's name)
import { parseArgs } from 'node:util'
import { type Cleanup, withCleanup } from '../test/cleanup.ts'
import { customerId, fillLargeShop, type ShopSize } from '../test/large-shop.ts'
import { median, table } from './rig/measurement.ts'
import { processorSeconds } from './rig/processor-time.ts'
import { logIn, PASSWORD, register, registerOperator } from './rig/shop.ts'
import { openStore } from './rig/store.ts'
import { type Call, WORKS, type Work } from './size/works.ts'

/** The largest ratio for a row that should be constant. A larger one is measured again, for longer. */
const MOST = 2
const AGAIN = 4
const DEEP_PAGES = 400
const SECONDS_OF_A_CALL = 120

interface Shop {
  size: ShopSize
  port: number
  postgresPid: number
  tokens: Record<NonNullable<Call['as']>, string>
  ordersOfCustomer: number
  /** The calls so far. Bodies and paths of calls get unique numbers from it. */
  calls: number
}

/** The medians of one call, in milliseconds. */
interface Measured {
  call: Call
  small: number
  large: number
}

export async function run(args: string[]): Promise<void> {
  const text = (value: string) => ({ type: 'string' as const, default: value })
  const { values } = parseArgs({
    args,
    options: {
      ...{ products: text('200000'), orders: text('200000'), 'small-products': text('1000'), 'small-orders': text('2000') },
      ...{ rounds: text('5'), only: text('') },
    },
  })
  await withCleanup(async (cleanup) => {
    const small = await openShop(cleanup, { products: Number(values['small-products']), orders: Number(values['small-orders']) })
    const large = await openShop(cleanup, { products: Number(values.products), orders: Number(values.orders) })
    const rows: string[][] = []
    const beyond: string[] = []
    for (const work of WORKS.filter(({ name }) => name.includes(values.only))) {
      const before = [small, large].map(usageOf)
      const measured: Measured[] = []
      for (const call of work.calls) measured.push(await compare(work, call, [small, large], Number(values.rounds)))
      const [ofSmall, ofLarge] = [small, large].map((shop, index) => postgresMs(usageOf(shop), before[index]))
      const ratios = measured.map(ratioOf)
      const times = (which: 'small' | 'large') => rangeOf(measured.map((one) => one[which]))
      rows.push([work.name, `${times('small')} (${ofSmall})`, `${times('large')} (${ofLarge})`, `× ${rangeOf(ratios)}`, work.shouldBe])
      console.log(rows.at(-1)?.join('  '))
      if (work.shouldBe !== 'constant') continue
      for (const one of measured.filter((candidate) => ratioOf(candidate) > MOST))
        beyond.push(
          `${work.name}: × ${figure(ratioOf(one))}, ${one.call.method ?? 'GET'} ${one.call.path}${one.call.isDeep ? ' (deep)' : ''}`,
        )
    }
    const [of, than] = [small, large].map(({ size }) => `${inWords(size.products)} products, ${inWords(size.orders)} orders`)
    console.log(`\n${table(['Work', `Small: ${of}`, `Large: ${than}`, 'Ratio', 'Should be'], rows)}`)
    console.log("Milliseconds, medians of each call; in brackets PostgreSQL's processor time of a call.")
    console.log(`Constant, and more than ${MOST} ×: ${beyond.length === 0 ? 'none' : `\n- ${beyond.join('\n- ')}`}`)
  })
}

async function openShop(cleanup: Cleanup, size: ShopSize): Promise<Shop> {
  const store = await openStore(cleanup, { env: { PAGE_CACHE_MB: '0' } })
  const beganAt = performance.now()
  await fillLargeShop(store.pool, size)
  console.log(`${inWords(size.products)} products and ${inWords(size.orders)} orders in ${figure((performance.now() - beganAt) / 1_000)} s`)
  const { port } = await store.start('api')
  const customer = customerId(0)
  const { userId } = await register(port, { email: 'password@shop.example', password: PASSWORD })
  const { rows } = await store.pool.query<{ email: string; orders: number }>(
    `update users set password_hash = (select password_hash from users where id = $1) where id = $2
    returning email, (select count(*)::integer from orders where user_id = $2) as orders`,
    [userId, customer],
  )
  const { email = '', orders = 0 } = rows[0] ?? {}
  const { token } = await logIn(port, { email, password: PASSWORD })
  const operator = await registerOperator(port, store.pool)
  return {
    ...{ size, port, postgresPid: store.postgresPid, tokens: { customer: token, operator: operator.token } },
    ...{ ordersOfCustomer: orders, calls: 0 },
  }
}

async function compare(work: Work, call: Call, shops: [Shop, Shop], rounds: number): Promise<Measured> {
  const calls = await Promise.all(shops.map((shop) => (call.isDeep ? deepCall(shop, call) : call)))
  const measure = async (count: number): Promise<Measured> => {
    const times: [number[], number[]] = [[], []]
    for (let round = 0; round < count; round++) {
      for (const index of round % 2 === 0 ? [0, 1] : [1, 0]) {
        const shop = shops[index] as Shop
        const ms = await time(shop, calls[index] as Call)
        times[index]?.push(work.shouldBe === 'linear' ? ms / shop.ordersOfCustomer : ms)
      }
    }
    return { call, small: median(times[0]), large: median(times[1]) }
  }
  if (work.isOnce) return measure(1)
  await measure(1)
  const first = await measure(rounds)
  return ratioOf(first) > MOST && work.shouldBe === 'constant' ? measure(AGAIN * rounds) : first
}

/** The same call for the last page, or for a page hundreds of pages away. */
async function deepCall(shop: Shop, call: Call): Promise<Call> {
  const at = new URL(call.path, 'http://localhost')
  at.searchParams.set('limit', '50')
  for (let page = 0; page < DEEP_PAGES; page++) {
    const answer = await send(shop, { ...call, path: `${at.pathname}${at.search}` })
    const { next_cursor: cursor } = JSON.parse(answer) as { next_cursor: string | null }
    if (cursor === null) break
    at.searchParams.set('cursor', cursor)
  }
  const limit = new URL(call.path, 'http://localhost').searchParams.get('limit') ?? '20'
  at.searchParams.set('limit', limit)
  return { ...call, path: `${at.pathname}${at.search}` }
}

async function time(shop: Shop, call: Call): Promise<number> {
  const beganAt = performance.now()
  await send(shop, call)
  return performance.now() - beganAt
}

async function send(shop: Shop, { method = 'GET', path, body, as }: Call): Promise<string> {
  const n = ++shop.calls
  const filled = body === undefined ? undefined : JSON.stringify(body).replaceAll('"{n}"', String(n)).replaceAll('{n}', String(n))
  const answer = await fetch(`http://127.0.0.1:${shop.port}${path}`, {
    method,
    headers: {
      ...(as === undefined ? {} : { authorization: `Bearer ${shop.tokens[as]}` }),
      ...(filled === undefined ? {} : { 'content-type': 'application/json' }),
      ...(method === 'PATCH' ? { 'if-match': '*' } : {}),
    },
    ...(filled === undefined ? {} : { body: filled }),
    signal: AbortSignal.timeout(SECONDS_OF_A_CALL * 1_000),
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${path} was answered with ${answer.status} by the shop of ${shop.size.products}: ${text}`)
  return text
}

const ratioOf = ({ small, large }: Measured) => large / small
const usageOf = ({ postgresPid, calls }: Shop) => ({ seconds: processorSeconds([postgresPid]), calls })

function postgresMs(now: ReturnType<typeof usageOf>, before: ReturnType<typeof usageOf> | undefined): string {
  return figure((1_000 * (now.seconds - (before?.seconds ?? 0))) / (now.calls - (before?.calls ?? 0)))
}

function rangeOf(values: readonly number[]): string {
  const [least, most] = [Math.min(...values), Math.max(...values)].map(figure)
  return least === most ? `${least}` : `${least} to ${most}`
}

const inWords = (count: number) => count.toLocaleString('en')
const figure = (value: number) => value.toLocaleString('en', { maximumFractionDigits: value < 1 ? 2 : value < 100 ? 1 : 0 })
