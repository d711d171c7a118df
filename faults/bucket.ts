import { setTimeout as pause } from 'node:timers/promises'
import { farFromMidnight } from '../test/midnight.ts'
import { type S3Fault, type S3Request, type S3Server, startS3Server } from '../test/s3-server.ts'
import type { Fault } from './fault.ts'
import { compactAndDie } from './lake.ts'
import type { Round } from './round.ts'
import { assertTablesComplete, fillForMerge, tradeAndChange, untilStored } from './table.ts'

const LAKE_FILE = /^lake\/orders\//
const VERSION = /^lake\/iceberg\/order_events\/metadata\/v\d+\./
const SLOW_MS = 2_000

/** A lake whose object store fails, is slow, or loses its answers, and writers that die meanwhile. */
export const BUCKET_FAULTS: Fault[] = [
  unreliable('s3-500', 'S3 answers 500 to every third request', { status: 500 }),
  unreliable('s3-503', 'S3 answers 503 to every third request', { status: 503 }),
  unreliable('s3-lost-answer', 'S3 stores and its answer is lost, every third request', { losesAnswer: true }),
  unreliable('s3-slow', `S3 takes up to ${SLOW_MS / 1_000} s for every third request`, {}),
  ...(['before', 'after'] as const).map(
    (when) =>
      ({
        name: `s3-kill-${when}`,
        title: `kill -9 of the lake writer ${when} S3 stored its file`,
        async run(round, orders) {
          const server = await openBucket(round)
          await round.survive('stream,email')
          const dying = await round.start('lake')
          killAt(server, 'PUT', when, LAKE_FILE, () => dying.child.kill('SIGKILL'))
          await Promise.all([dying.ended, round.shop.trade(orders)])
          server.fault = () => undefined
          await round.start('lake')
          await round.shop.trade(3)
        },
      }) satisfies Fault,
  ),
  {
    name: 's3-late',
    title: "a dead writer's PUT that arrives after its successor has written",
    async run(round, orders) {
      const server = await openBucket(round)
      await round.survive('stream,email')
      const dying = await round.start('lake')
      const successorWrote = Promise.withResolvers<void>()
      server.fault = ({ method, key }) => {
        if (method !== 'PUT' || !VERSION.test(key)) return undefined
        server.fault = () => undefined
        dying.child.kill('SIGKILL')
        return { before: () => successorWrote.promise }
      }
      await Promise.all([dying.ended, round.shop.trade(orders)])
      await round.start('lake')
      await round.shop.trade(3)
      await round.drain()
      successorWrote.resolve()
      await round.shop.trade(3)
      await round.drain()
      await round.start('lake')
    },
  },
  {
    name: 's3-compact',
    title: 'kill -9 of lake maintain around a step, twice, in S3, beside the writer',
    async run(round, orders) {
      const server = await openBucket(round)
      await compactAndDie(round, orders, (step) => {
        const dying = round.compact()
        const [when = '', what] = step.split(' ')
        killAt(server, 'PUT', when, what === 'link' ? LAKE_FILE : VERSION, () => dying.child.kill('SIGKILL'))
        return dying
      })
    },
  },
  {
    name: 's3-table',
    title:
      'the Iceberg tables in S3: a version whose answer is lost, that is refused as a conflict or with 500, and kill -9 of its writer and of lake maintain before and after it',
    async run(round, orders) {
      const server = await openBucket(round)
      await round.survive('stream,email')
      await farFromMidnight()
      const part = Math.ceil(orders / 8)
      for (const fault of VERSION_FAULTS) {
        const writer = await round.start('lake')
        await Promise.all([failVersion(server, fault, versionOf(round)), tradeAndChange(round, part)])
        await untilStored(round)
        await writer.kill()
      }
      for (const when of ['before', 'after']) {
        const dying = await round.start('lake')
        killAt(server, 'PUT', when, versionOf(round), () => dying.child.kill('SIGKILL'))
        await Promise.all([dying.ended, tradeAndChange(round, part)])
        const writer = await round.start('lake')
        await fillForMerge(round, part)
        const merge = round.compact()
        killAt(server, 'PUT', when, versionOf(round), () => merge.child.kill('SIGKILL'))
        await merge.ended
        if (merge.child.signalCode !== 'SIGKILL') throw new Error(`the merge was over before it died ${when} its version`)
        await writer.kill()
      }
      await round.start('lake')
      await untilStored(round)
      await round.compact().ended
      await assertTablesComplete(round)
    },
  },
]

/** A new version of a table of orders or of the catalogue. */
const versionOf = (round: Round) =>
  round.random() < 0.5
    ? /^lake\/iceberg\/order\w+\/metadata\/v\d+\./
    : /^lake\/iceberg\/(catalogue_events|products|prices|stock_events)\/metadata\/v\d+\./

/** Faults of a request that puts a table version. The writer, the merge and their successors run one after another. */
const VERSION_FAULTS: readonly S3Fault[] = [{ losesAnswer: true }, { status: 409 }, { status: 500 }]

/** Fails the requests for a table's next version once. Returns when that has happened. */
async function failVersion(server: S3Server, fault: S3Fault, version: RegExp): Promise<void> {
  const failed = Promise.withResolvers<void>()
  server.fault = ({ method, key }) => {
    if (method !== 'PUT' || !version.test(key)) return undefined
    server.fault = () => undefined
    failed.resolve()
    return fault
  }
  await failed.promise
}

async function openBucket(round: Round): Promise<S3Server> {
  const server = await startS3Server(round.cleanup, { pageSize: 3 })
  round.useBucket(server)
  return server
}

function unreliable(name: string, title: string, fault: S3Fault): Fault {
  return {
    name,
    title,
    async run(round, orders) {
      const server = await openBucket(round)
      const before = () => pause(round.random() * SLOW_MS)
      server.fault = () => (round.random() < 1 / 3 ? (name === 's3-slow' ? { before } : fault) : undefined)
      await round.survive('stream,email,lake')
      for (let part = 0; part < 4; part++) {
        await round.shop.trade(Math.ceil(orders / 4))
        await pause(500)
      }
      server.fault = () => undefined
    },
  }
}

/** Kills a process once: just before such a request is processed, or after that and before its answer. */
function killAt(server: S3Server, method: string, when: string, key: RegExp, kill: () => void): void {
  const die = () => {
    server.fault = () => undefined
    kill()
  }
  const matches = (request: S3Request) => request.method === method && key.test(request.key)
  server.fault = (request) => {
    if (!matches(request)) return undefined
    // The server does not process an incomplete request of a dead client.
    return when === 'before' ? { before: die, status: 500 } : { after: die, losesAnswer: true }
  }
}
