import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { connectClient, type Queryable } from '../db/pool.ts'
import { recreateBrokenSlot, untilLocked } from './recreate-slot.ts'
import { findBrokenReason, findForeignReason, untilCreated } from './replication-slot.ts'
import { findRefill, finishRefill, recordRefill } from './slot-positions.ts'

const WAIT_MS = 500

export interface SlotRefillOptions {
  url: string
  pool: Queryable
  slotName: string
  logger: Logger
  /** Publishes the events that the topic lacks. Returns false if `signal` aborts. */
  publishStored: (signal: AbortSignal) => Promise<boolean>
  /** Called before a publication, because a restored database must have its incarnation first. */
  beforePublishing?: ((signal: AbortSignal) => Promise<void>) | undefined
  /** Why the topic lacks events although the slot is good, or null. */
  findGap?: ((signal: AbortSignal) => Promise<string | null>) | undefined
}

/**
 * The refill is recorded from before the slot exists until its end, so another process continues it. Throws when
 * `signal` aborts, and for another database's slot. See docs/decisions/change-stream-slots.md.
 */
export async function refillLostSlot(options: SlotRefillOptions, signal: AbortSignal): Promise<void> {
  const { url, pool, slotName, logger, beforePublishing, findGap } = options
  await untilCreated(pool, slotName, signal)
  const broken = await findBrokenReason(pool, slotName)
  // A slot that another process has begun to create since then is not broken, but misses what commits meanwhile.
  if (broken === null) await untilCreated(pool, slotName, signal)
  const foreign = broken === null ? null : await findForeignReason(pool, slotName)
  if (foreign !== null) throw new Error(foreign)
  const isUnfinished = (await findRefill(pool, slotName)) !== null
  const reason = broken ?? (isUnfinished ? null : ((await findGap?.(signal)) ?? null))
  if (reason === null && !isUnfinished) return
  await beforePublishing?.(signal)
  signal.throwIfAborted()
  if (reason !== null) {
    // A new topic lacks events too, such as at the first start.
    if (broken === null) logger.info({ slot: slotName, reason }, 'the topic lacks events, which are published from the database')
    else logger.warn({ slot: slotName, reason }, 'the replication slot has missed changes, which are published from the database')
    await recordRefill(pool, slotName, { id: randomUUID(), reason })
  }
  if (broken !== null) await recreateBrokenSlot(pool, url, slotName, { signal })
  await refill(options, signal)
}

/** Publishes in one process. The others wait until it has ended. */
async function refill({ pool, slotName, url, logger, publishStored }: SlotRefillOptions, signal: AbortSignal): Promise<void> {
  await using lock = await connectClient(url, 'storefront-refill', signal)
  await untilLocked(lock, `storefront refill ${slotName}`, WAIT_MS, signal)
  const found = await findRefill(pool, slotName)
  // Another process has finished it meanwhile.
  if (found === null) return
  if (!(await publishStored(signal))) return signal.throwIfAborted()
  // A refill recorded meanwhile may need rows that this one has already passed.
  if (await finishRefill(pool, slotName, found.id)) logger.info({ slot: slotName }, 'the topic has what the replication slot had missed')
}
