import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { connectClient, type Queryable } from '../db/pool.ts'
import { recreateBrokenSlot, untilLocked } from './recreate-slot.ts'
import { findBrokenReason, findForeignReason, untilCreated } from './replication-slot.ts'
import { findRefill, finishRefill, recordRefill } from './slot-positions.ts'

const WAIT_MS = 500

export interface SlotRefillOptions {
  /** Address of the database for the role that may replicate. */
  url: string
  pool: Queryable
  slotName: string
  logger: Logger
  /** Publishes the events that the database has and the topic lacks. Returns whether it came to the end: it stops when `signal` aborts. */
  publishStored: (signal: AbortSignal) => Promise<boolean>
  /** Called before anything is published: a restored database must have its incarnation. */
  beforePublishing?: ((signal: AbortSignal) => Promise<void>) | undefined
  /** Why the topic lacks events although the slot is good; null when it does not. */
  findGap?: ((signal: AbortSignal) => Promise<string | null>) | undefined
}

/**
 * Returns when the slot exists and the topic has what no slot delivers. A slot that is missing or lost is recreated,
 * and what it missed is published from the database. The refill is recorded from before the slot exists until its end, so another process
 * continues it. Throws when `signal` aborts, and when the slot belongs to another database. See
 * docs/decisions/change-stream-slots.md.
 */
export async function refillLostSlot(options: SlotRefillOptions, signal: AbortSignal): Promise<void> {
  const { url, pool, slotName, logger, beforePublishing, findGap } = options
  await untilCreated(pool, slotName)
  const broken = await findBrokenReason(pool, slotName)
  const foreign = broken === null ? null : await findForeignReason(pool, slotName)
  if (foreign !== null) throw new Error(foreign)
  const isUnfinished = (await findRefill(pool, slotName)) !== null
  const reason = broken ?? (isUnfinished ? null : ((await findGap?.(signal)) ?? null))
  if (reason === null && !isUnfinished) return
  await beforePublishing?.(signal)
  signal.throwIfAborted()
  if (reason !== null) {
    // A new topic lacks events as well, such as at the first start.
    if (broken === null) logger.info({ slot: slotName, reason }, 'the topic lacks events, which are published from the database')
    else logger.warn({ slot: slotName, reason }, 'the replication slot has missed changes, which are published from the database')
    await recordRefill(pool, slotName, { id: randomUUID(), reason })
  }
  if (broken !== null) await recreateBrokenSlot(pool, url, slotName, { signal })
  await refill(options, signal)
}

/** One process publishes; the others wait until it has, or has died. */
async function refill({ pool, slotName, url, logger, publishStored }: SlotRefillOptions, signal: AbortSignal): Promise<void> {
  await using lock = await connectClient(url, 'storefront-refill', signal)
  await untilLocked(lock, `storefront refill ${slotName}`, WAIT_MS, signal)
  const found = await findRefill(pool, slotName)
  // Another process has finished it meanwhile.
  if (found === null) return
  if (!(await publishStored(signal))) return signal.throwIfAborted()
  // A refill that was recorded meanwhile may need what this one had passed.
  if (await finishRefill(pool, slotName, found.id)) logger.info({ slot: slotName }, 'the topic has what the replication slot had missed')
}
