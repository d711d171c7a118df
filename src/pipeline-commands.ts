import { createTopic } from './app/create-topic.ts'
import { openLake } from './app/open-lake.ts'
import { orderSlotOf } from './app/prepare-database.ts'
import { type Command, type Terminal, withDatabase } from './commands.ts'
import type { Config } from './config.ts'
import type { DatabaseAddresses } from './db/addresses.ts'
import type { Pool } from './db/pool.ts'
import { DeliveryLog } from './pipeline/delivery-log.ts'
import { refillLake } from './pipeline/replay/refill-lake.ts'
import { type ReplayReport, replay } from './pipeline/replay/replay.ts'
import { rewindSubscriber } from './pipeline/replay/rewind-subscriber.ts'
import type { Topic } from './pipeline/topic.ts'
import { formatReport } from './pipeline/verify/format-report.ts'
import { verify } from './pipeline/verify/verify.ts'

// Not 2, which is a command that was called wrongly.
const EXIT_UNDECIDED = 3

const now = () => new Date()

/** Compares orders, topic, mails and lake. Status 1 when something is missing, doubled or corrupt, else 3 when it cannot be told. */
export function verifyCommand(config: Config, terminal: Terminal, format: 'text' | 'json'): Command {
  return withTopic(config, terminal, async (topic, pool, { stream: streamUrl }) => {
    const { lakeFlushSeconds } = config
    const slotName = orderSlotOf(streamUrl)
    const report = await verify({ pool, streamUrl, topic, slotName, lake: await openLake(config), lakeFlushSeconds, now })
    terminal.out(format === 'json' ? JSON.stringify(report) : formatReport(report))
    if (report.findings.length > 0) return 1
    return report.undecided.length > 0 ? EXIT_UNDECIDED : 0
  })
}

export interface ReplayArguments {
  since: Date | undefined
  orderId: string | undefined
  subscriber: string | undefined
}

/** Publishes what the topic lacks, or lets one subscriber read again. Status 1 when events could not be made. */
export function replayCommand(config: Config, terminal: Terminal, { since, orderId, subscriber }: ReplayArguments): Command {
  return withTopic(config, terminal, async (topic, pool, { api: url, stream: streamUrl }) => {
    if (subscriber === 'lake') {
      const { setAside, written } = await refillLake(url, await openLake(config), topic, now)
      for (const path of setAside) terminal.out(`set aside ${path}`)
      terminal.out(`wrote ${written} events that the lake lacked`)
      return 0
    }
    if (subscriber !== undefined) {
      const { from, to } = await rewindSubscriber({ pool, url, topic, name: subscriber, since })
      terminal.out(`${subscriber} reads again what comes after ${to}; it was at ${from}`)
      return 0
    }
    const report = await replay({ pool, streamUrl, topic, slotName: orderSlotOf(streamUrl), filter: { since, orderId } })
    for (const line of describeReplay(report)) terminal.out(line)
    return report.unknown.length === 0 && report.corrupt === 0 && (report.slotLost === null || report.isSlotRenewed) ? 0 : 1
  })
}

function withTopic(config: Config, terminal: Terminal, work: (topic: Topic, pool: Pool, addresses: DatabaseAddresses) => Command): Command {
  return withDatabase(config, terminal, async (pool, addresses) => {
    const deliveryLog = new DeliveryLog({ pool, logger: terminal.logger })
    const topic = createTopic(config, { pool, url: addresses.api, logger: terminal.logger, onStored: deliveryLog.published })
    try {
      await topic.start()
      return await work(topic, pool, addresses)
    } finally {
      await topic.stop()
      await deliveryLog.stop()
    }
  })
}

function describeReplay(report: ReplayReport): string[] {
  const { compared, published, underWay, unknown, corrupt, slotLost, isSlotRenewed } = report
  const lines = slotLost === null ? [] : [slotLost]
  if (isSlotRenewed) lines.push('the slot is refilled; the change stream delivers every change from here on')
  else if (slotLost !== null) lines.push('left the slot as it is: run storefront replay without --since and --order')
  lines.push(`compared ${compared} events with the topic and published ${published} that it lacked`)
  if (underWay > 0) lines.push(`${underWay} more come by the change stream`)
  for (const id of unknown) lines.push(`cannot make the event ${id}: the row of the order does not tell of it`)
  if (corrupt > 0) lines.push(`${corrupt} messages of the topic are corrupt and stand in the way of theirs: see storefront verify`)
  return lines
}
