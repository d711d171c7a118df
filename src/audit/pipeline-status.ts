import { countDeadLetters, type ListedDeadLetter, listNewestDeadLetters } from '../change-stream/dead-letters.ts'
import { readSlotStatus, type SlotStatus } from '../change-stream/replication-slot.ts'
import type { Pool } from '../db/pool.ts'
import { type DeliveryKind, type QueueLength, readQueueLength } from '../deliveries/delivery-kind.ts'
import { readSnapshot } from '../lake/iceberg/event-table.ts'
import { currentSnapshot } from '../lake/iceberg/table-metadata.ts'
import type { LakeStore } from '../lake/lake-store.ts'
import { SUBSCRIBERS, type SubscriberName } from '../subscribers.ts'
import { findActiveSubscribers, lagBehind, listSubscriberPositions } from '../topic/subscriber-lag.ts'
import type { Subscription, Topic } from '../topic/topic.ts'
import { withinMs } from '../within-ms.ts'
import { type AuditRun, findLastRun } from './audit-runs.ts'

const SHOWN = SUBSCRIBERS.filter(({ partition }) => partition === 'orders')
const NEWEST_DEAD_LETTERS = 5
const TIMEOUT_MS = 2_000
const LAKE_KEPT_MS = 10_000
const MAX_REASON = 300

export interface PipelineOptions {
  pool: Pool
  slotName: string
  topic: Topic
  /** Opened at first use: the role `api` needs no lake otherwise. */
  openLake: () => Promise<LakeStore>
  /** The states in the processes that one command has started. */
  readStates: () => Promise<(readonly [SubscriberName, Subscription['state']])[]>
  queues: readonly DeliveryKind[]
}

interface TopicStatus {
  isOutside: boolean
  newestSequence: number
}

interface SubscriberStatus {
  name: string
  position: number | null
  /**
   * The number of events between the subscriber and the end of the topic. Null while its position or the topic's end is
   * unknown.
   */
  lag: number | null
  isActive: boolean
  /** It is null if none of these processes has the subscriber's role. */
  state: Subscription['state'] | null
}

interface LakeStatus {
  place: string
  files: number
  sizeBytes: number
  newestFileAt: Date | null
  upTo: number
}

interface Parts {
  slot: SlotStatus & { name: string }
  topic: TopicStatus
  subscribers: Omit<SubscriberStatus, 'lag'>[]
  queues: ({ name: string } & QueueLength)[]
  deadLetters: { count: number; newest: ListedDeadLetter[] }
  lake: LakeStatus
  lastVerify: AuditRun | null
}
export type PipelinePart = keyof Parts

/** The state of the pipeline. Parts that cannot be read are null, and `unavailable` has the reasons. */
export type PipelineStatus = { [Name in Exclude<PipelinePart, 'subscribers'>]: Parts[Name] | null } & {
  subscribers: SubscriberStatus[] | null
  unavailable: { part: PipelinePart; reason: string }[]
}

/** Any process can read it. A part that fails or hangs does not affect the others. */
export class Pipeline {
  readonly #options: PipelineOptions
  readonly #parts: { [Name in PipelinePart]: Part<Parts[Name]> }
  #lake: Promise<LakeStore> | null = null

  constructor(options: PipelineOptions) {
    this.#options = options
    const { pool, slotName, queues } = options
    this.#parts = {
      slot: new Part(async () => ({ name: slotName, ...(await readSlotStatus(pool, slotName)) })),
      topic: new Part(() => this.#readTopic()),
      subscribers: new Part(() => this.#readSubscribers()),
      queues: new Part(() => Array.fromAsync(queues, async (queue) => ({ name: queue.name, ...(await readQueueLength(pool, queue)) }))),
      deadLetters: new Part(async () => {
        const count = await countDeadLetters(pool)
        return { count, newest: count === 0 ? [] : await listNewestDeadLetters(pool, NEWEST_DEAD_LETTERS) }
      }),
      lake: new Part(() => this.#readLake(), LAKE_KEPT_MS),
      lastVerify: new Part(() => findLastRun(pool, 'verify')),
    }
  }

  async start(): Promise<void> {}

  async stop(): Promise<void> {
    const lake = await this.#lake?.catch(() => null)
    lake?.close()
  }

  async read(): Promise<PipelineStatus> {
    const unavailable: PipelineStatus['unavailable'] = []
    const read = async <Name extends PipelinePart>(part: Name): Promise<Parts[Name] | null> => {
      const { value, reason } = await (this.#parts[part] as Part<Parts[Name]>).read()
      if (reason !== null) unavailable.push({ part, reason })
      return value
    }
    const reading = read('lake')
    // One after the other: a request holds one connection at most.
    const slot = await read('slot')
    const topic = await read('topic')
    const subscribers = await read('subscribers')
    const queues = await read('queues')
    const deadLetters = await read('deadLetters')
    const lastVerify = await read('lastVerify')
    const lake = await reading
    const withLag = subscribers?.map((subscriber): SubscriberStatus => {
      // The lake's position is in its newest snapshot.
      const position = subscriber.name === 'lake' ? (lake?.upTo ?? null) : subscriber.position
      const lag = position === null || topic === null ? null : lagBehind(position, topic.newestSequence).lag
      return { ...subscriber, position, lag }
    })
    return { slot, topic, subscribers: withLag ?? null, queues, deadLetters, lake, lastVerify, unavailable }
  }

  async #readTopic(): Promise<TopicStatus> {
    const { topic } = this.#options
    return { isOutside: topic.isOutside, newestSequence: await topic.newestSequence() }
  }

  async #readSubscribers(): Promise<Omit<SubscriberStatus, 'lag'>[]> {
    const { pool, readStates } = this.#options
    const positions = await listSubscriberPositions(pool)
    const names = SHOWN.map(({ name }) => name)
    const active = await findActiveSubscribers(pool, names)
    const states = new Map(await readStates())
    return names.map((name) => ({
      name,
      position: positions.get(name) ?? null,
      isActive: active.has(name),
      state: states.get(name) ?? null,
    }))
  }

  /** Reads the lake's newest snapshot without its data files. */
  async #readLake(): Promise<LakeStatus> {
    this.#lake ??= this.#options.openLake().catch((error) => {
      this.#lake = null
      throw error
    })
    const store = await this.#lake
    const { files, sequence, base } = await readSnapshot(store, 'orders')
    const writtenAt = files.length === 0 ? null : base.metadata && currentSnapshot(base.metadata)['timestamp-ms']
    return {
      place: store.locate(''),
      files: files.length,
      sizeBytes: files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
      newestFileAt: writtenAt === null ? null : new Date(writtenAt),
      upTo: sequence,
    }
  }
}

/** Callers share a reading while it is in progress and for `keptMs` afterwards. */
class Part<T> {
  readonly #read: () => Promise<T>
  readonly #keptMs: number
  #inFlight: Promise<T> | null = null
  #last: { value: T; at: number } | null = null

  constructor(read: () => Promise<T>, keptMs = 0) {
    this.#read = read
    this.#keptMs = keptMs
  }

  async read(): Promise<{ value: T; reason: null } | { value: null; reason: string }> {
    if (this.#last !== null && performance.now() - this.#last.at < this.#keptMs) return { value: this.#last.value, reason: null }
    // A reading that hangs is not repeated meanwhile.
    this.#inFlight ??= this.#readOnce()
    try {
      const value = await withinMs(TIMEOUT_MS, this.#inFlight, LATE)
      return value === LATE
        ? { value: null, reason: `it does not answer within ${TIMEOUT_MS / 1_000} s` }
        : { value: value as T, reason: null }
    } catch (error) {
      const [line = ''] = (error instanceof Error ? error.message : String(error)).split('\n')
      return { value: null, reason: line.slice(0, MAX_REASON) || 'it cannot be read' }
    }
  }

  async #readOnce(): Promise<T> {
    try {
      const value = await this.#read()
      this.#last = { value, at: performance.now() }
      return value
    } finally {
      this.#inFlight = null
    }
  }
}

const LATE = Symbol('late')
