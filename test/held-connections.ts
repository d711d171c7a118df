import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import pg from 'pg'

interface Holder {
  held: number
  most: number
}

const holders = new AsyncLocalStorage<Holder>()
type Connect = (
  this: pg.Pool,
  callback?: (error: Error | undefined, client: pg.PoolClient | undefined, done: () => void) => void,
) => unknown
const connect = pg.Pool.prototype.connect as Connect

/** Orders of several requests are placed together, by connections of their own. */
const isOfRequests = (pool: pg.Pool) => pool.options.application_name === 'storefront'

function count(holder: Holder, client: pg.PoolClient): void {
  holder.held += 1
  holder.most = Math.max(holder.most, holder.held)
  const release = client.release
  client.release = (error) => {
    holder.held -= 1
    client.release = release
    release.call(client, error)
  }
}

pg.Pool.prototype.connect = function (this: pg.Pool, callback?: Parameters<Connect>[0]) {
  const holder = holders.getStore()
  if (holder === undefined || !isOfRequests(this)) return connect.call(this, callback)
  if (callback === undefined) {
    return (connect.call(this) as Promise<pg.PoolClient>).then((client) => {
      count(holder, client)
      return client
    })
  }
  return connect.call(this, (error, client, done) => {
    if (client !== undefined) count(holder, client)
    callback(error, client, client === undefined ? done : (client.release as () => void))
  })
} as never

/** Runs a request in this process. Fails when it held more than one connection of the pool of requests at once. */
export async function assertHoldsOne<T>(what: string, request: () => Promise<T>): Promise<T> {
  const holder = { held: 0, most: 0 }
  // `inject` sends a request only when it is awaited.
  const answer = await holders.run(holder, async () => await request())
  assert.ok(holder.most <= 1, `${what} held ${holder.most} connections to the database at once`)
  return answer
}
