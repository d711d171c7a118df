import { setTimeout as pause } from 'node:timers/promises'
import type { Cleanup } from '../test/cleanup.ts'
import { eventually, retryUntil } from '../test/eventually.ts'
import { NO_NATS, startNatsServer } from '../test/nats-server.ts'
import { Broker } from './broker.ts'
import { untilMended } from './database.ts'
import type { Fault } from './fault.ts'
import { dieAndGoOn, pauseAndWake, startDying } from './handler.ts'
import { Skipped } from './lake.ts'
import { NatsCluster, untilWhole } from './nats-cluster.ts'
import { Round } from './round.ts'

const clusters = new WeakMap<Round, NatsCluster>()

async function openWithServer(cleanup: Cleanup, random: () => number): Promise<Round> {
  if (NO_NATS) throw new Skipped(NO_NATS)
  const server = await startNatsServer(cleanup)
  return Round.open(cleanup, random, undefined, await Broker.open(cleanup, [server.url], 1))
}

async function openWithCluster(cleanup: Cleanup, random: () => number): Promise<Round> {
  if (NO_NATS) throw new Skipped(NO_NATS)
  const cluster = await NatsCluster.start(cleanup)
  const round = await Round.open(cleanup, random, undefined, await cluster.openBroker(cleanup))
  clusters.set(round, cluster)
  return round
}

/** The round's cluster, once its stream has a leader. */
async function untilLed(round: Round): Promise<{ cluster: NatsCluster; broker: Broker; leader: string }> {
  const cluster = clusters.get(round)
  const { broker } = round
  if (cluster === undefined || broker === null) throw new Error('this round has no cluster of its own')
  await round.shop.trade(1)
  await eventually(async () => (await round.countMessages().catch(() => 0)) > 0, { what: 'the stream', timeoutMs: 180_000 })
  await untilWhole(broker)
  const leader = await eventually(() => broker.leader().catch(() => undefined), { what: 'a leader', timeoutMs: 180_000 })
  return { cluster, broker, leader }
}

const STEPS = ['during publish', 'after publish', 'after confirm'] as const

/**
 * A broker that loses servers, its quorum, or everything, and a handler that dies around the broker's acknowledgement.
 */
export const NATS_FAULTS: Fault[] = [
  ...STEPS.map(
    (step) =>
      ({
        name: `nats-handler-${step.replace(' ', '-')}`,
        title: `NATS: kill -9 of the handler ${step === 'after publish' ? 'after PubAck, before confirm' : step}`,
        open: openWithServer,
        run: (round, orders) => dieAndGoOn(round, orders, step),
      }) satisfies Fault,
  ),
  {
    name: 'nats-two-handlers',
    title: 'NATS: two handlers, the active one paused and woken',
    open: openWithServer,
    run: pauseAndWake,
  },
  {
    name: 'nats-dedupe-window',
    title: 'NATS: handler killed after PubAck, back after the broker has forgotten the message ids',
    open: openWithServer,
    async run(round, orders) {
      await round.survive('email,lake')
      const dying = await round.start('stream', { FAULT: 'after publish', FAULT_AFTER: '1' })
      await round.shop.trade(1)
      await eventually(async () => (await round.countMessages().catch(() => 0)) > 0, { what: 'the stream', timeoutMs: 180_000 })
      await round.broker?.setDedupeWindow(FORGETS_AFTER_MS)
      await round.shop.trade(orders)
      while (dying.child.signalCode === null) await round.shop.trade(1)
      await pause(2 * FORGETS_AFTER_MS)
      await round.start('stream')
      await round.shop.trade(3)
    },
  },
  {
    name: 'nats-leader',
    title: 'NATS: kill -9 of the leader of three servers',
    open: openWithCluster,
    async run(round, orders) {
      await round.survive('stream,email,lake')
      const { cluster, leader } = await untilLed(round)
      const trading = round.shop.trade(orders)
      await pause(round.random() * 200)
      await cluster.kill(leader)
      await trading
      await cluster.restart(leader)
      await round.shop.trade(3)
    },
  },
  {
    name: 'nats-leader-and-handler',
    title: 'NATS: kill -9 of the leader, and of the handler with a backlog in flight',
    open: openWithCluster,
    ordersPerRound: 300,
    async run(round, orders) {
      await round.survive('email,lake')
      const first = await round.start('stream')
      const { cluster, leader } = await untilLed(round)
      await first.kill()
      await round.shop.trade(orders)
      const [dying] = await Promise.all([
        // The first batch has the changes from before the first publication.
        startDying(round, 'during publish', 1),
        pause(round.random() * 1_000).then(() => cluster.kill(leader)),
      ])
      // The handler dies once there is another leader.
      while (dying.child.signalCode === null) {
        await round.shop.trade(1)
        await pause(100)
      }
      await round.start('stream')
      await round.shop.trade(3)
      await cluster.restart(leader)
      await round.shop.trade(3)
    },
  },
  {
    name: 'nats-one-lost',
    title: 'NATS: one of three servers lost with its disk',
    open: openWithCluster,
    async run(round, orders) {
      await round.survive('stream,email,lake')
      const { cluster, broker } = await untilLed(round)
      const trading = round.shop.trade(orders)
      const lost = cluster.names[Math.floor(round.random() * cluster.names.length)] ?? ''
      await cluster.kill(lost)
      await trading
      cluster.wipe(lost)
      await cluster.restart(lost)
      await round.shop.trade(3)
      await untilWhole(broker)
    },
  },
  {
    name: 'nats-partition',
    title: 'NATS: the leader cut off from the two others, its clients not',
    open: openWithCluster,
    async run(round, orders) {
      await round.survive('stream,email,lake')
      const { cluster, broker, leader } = await untilLed(round)
      const trading = round.shop.trade(orders)
      await pause(round.random() * 200)
      cluster.cutOff(leader)
      // This is the majority's view.
      const majority = await cluster.openBroker(round.cleanup, leader)
      await eventually(async () => (await majority.leader().catch(() => leader)) !== leader, { what: 'a new leader', timeoutMs: 180_000 })
      await trading
      await round.shop.trade(3)
      cluster.reconnect(leader)
      await round.shop.trade(3)
      await untilWhole(broker)
    },
  },
  {
    name: 'nats-all-wiped',
    title: 'NATS: all three servers lost with their disks, storefront replay',
    open: openWithCluster,
    async run(round, orders) {
      await round.survive('stream,email,lake')
      const { cluster } = await untilLed(round)
      await round.shop.trade(Math.ceil(orders / 2))
      await eventually(async () => (await round.countMessages().catch(() => 0)) >= orders / 2, {
        what: 'half on the topic',
        timeoutMs: 180_000,
      })
      const trading = round.shop.trade(Math.ceil(orders / 2))
      await pause(round.random() * 200)
      await Promise.all(cluster.names.map((name) => cluster.kill(name)))
      for (const name of cluster.names) cluster.wipe(name)
      await Promise.all(cluster.names.map((name) => cluster.restart(name)))
      await trading
      // The next order recreates the stream. The contents of the lost one are missing before and after that.
      await round.shop.trade(1)
      await eventually(async () => (await round.countMessages().catch(() => 0)) > 0, { what: 'the new stream', timeoutMs: 180_000 })
      if ((await retryUntil(() => round.countMessages())) >= (await round.countVersions()))
        throw new Error('nothing was lost with the servers')
      // An operator replays just after the broker has restarted. The role stream notices the new stream, too, and its
      // slot counts as lost until it has published what is missing.
      await retryUntil(() => round.replay())
      await round.shop.trade(3)
      await untilMended(round)
      await assertInOrder(round)
    },
  },
  {
    name: 'nats-full',
    title: 'NATS: the stream is full, and has room again',
    open: openWithServer,
    async run(round, orders) {
      await round.survive('stream,email,lake')
      const broker = await untilMade(round)
      await broker.setRoom(ROOM_MESSAGES)
      await round.shop.trade(orders)
      if ((await round.countMessages()) >= (await round.countVersions())) throw new Error('the stream was never full')
      await pause(round.random() * 1_000)
      await broker.setRoom(null)
      await round.shop.trade(3)
      await round.drain()
      await assertInOrder(round)
    },
  },
  {
    name: 'nats-emptied',
    title: 'NATS: the stream is emptied and orders continue, storefront replay',
    open: openWithServer,
    async run(round, orders) {
      await round.survive('stream,email,lake')
      const broker = await untilMade(round)
      await round.shop.trade(Math.ceil(orders / 2))
      await round.drain()
      // This is less than two minutes after their publication, so the broker still knows their ids.
      await broker.empty()
      // Earlier orders continue, and must not come before the restored events.
      await round.shop.trade(Math.ceil(orders / 2))
      const lacking = (await round.countVersions()) - (await round.countMessages())
      const { published, dropped } = await retryUntil(() => round.replay())
      if (lacking > 0 && published === 0) throw new Error('storefront replay has published nothing')
      if (dropped.length > 0) throw new Error(`the stream has dropped ${dropped.length} events`)
      await round.shop.trade(3)
      await round.drain()
      await assertInOrder(round)
    },
  },
]

async function untilMade(round: Round): Promise<Broker> {
  const { broker } = round
  if (broker === null) throw new Error('this round has no broker')
  await round.shop.trade(1)
  await eventually(async () => (await round.countMessages().catch(() => 0)) > 0, { what: 'the stream', timeoutMs: 180_000 })
  return broker
}

/** Whether the topic has each order's events in the order of its versions. */
async function assertInOrder(round: Round): Promise<void> {
  const newest = new Map<string, number>()
  for (const id of (await round.broker?.readEventIds()) ?? []) {
    const [order = '', version] = id.split('.')
    if (Number(version) <= (newest.get(order) ?? 0)) throw new Error(`the event ${id} stands behind a later version`)
    newest.set(order, Number(version))
  }
}

const ROOM_MESSAGES = 3

const FORGETS_AFTER_MS = 200
