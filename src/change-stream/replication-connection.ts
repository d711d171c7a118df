import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import pg from 'pg'
import { abandonClient, connectUnlessAborted } from '../db/pool.ts'
import { COMMAND_BOUNDS, setUpSession } from '../db/session-settings.ts'
import { identifier, literal, sql } from '../db/sql.ts'
import { OBJECT_NOT_IN_PREREQUISITE_STATE, UNDEFINED_OBJECT } from '../db/sql-state.ts'
import type { Lsn } from './pgoutput.ts'

export type StreamMessage = { kind: 'pgoutput'; message: Buffer } | { kind: 'keepalive'; walEnd: Lsn; replyRequested: boolean }

// The message formats of https://www.postgresql.org/docs/current/protocol-replication.html
const XLOG_DATA = 0x77
const XLOG_DATA_HEADER_BYTES = 25
const KEEPALIVE = 0x6b
const STATUS_UPDATE = 0x72
const STATUS_UPDATE_BYTES = 34
const PATIENCE_SECONDS = 8
const CLOSE_PATIENCE_MS = 2_000
const POSTGRES_EPOCH_MS = BigInt(Date.UTC(2000, 0, 1))

interface WireConnection extends EventEmitter {
  stream: Socket
  sendCopyFromChunk(chunk: Buffer): void
}

export interface ReplicationConnection {
  /** The log's id, `<system id>.<timeline>`. Positions of different logs cannot be compared. */
  readonly logId: string
  readonly confirmed: Lsn
  /** Rejects with the reason, unless `close` ended the stream. */
  readonly ended: Promise<void>
  /** The server may remove the WAL up to `position`, because everything is stored elsewhere. */
  confirm(position: Lsn): void
  pause(): void
  resume(): void
  close(): Promise<void>
}

export interface ReplicationOptions {
  publication: string
  /** PostgreSQL frees the slot after this time without a message from the reader. The default is 8. */
  patienceSeconds?: number | undefined
  /** When the signal aborts, opening fails at once, and closing waits at most two seconds. */
  signal?: AbortSignal | undefined
}

/**
 * `onMessage` must not throw. Throws SQLSTATE 55006 when another reader has the slot. The stream ends with 42704 at a
 * change that is older than the publication.
 */
export async function openReplication(
  url: string,
  slotName: string,
  onMessage: (message: StreamMessage) => void,
  { publication, patienceSeconds = PATIENCE_SECONDS, signal }: ReplicationOptions,
): Promise<ReplicationConnection> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'storefront-stream',
    keepAlive: true,
    replication: 'database',
  } as pg.ClientConfig)
  let closed = false
  const { promise: broken, reject: fail } = Promise.withResolvers<never>()
  broken.catch(() => {})
  client.on('error', (error) => fail(error))
  client.on('end', () => fail(new Error('the replication connection was closed')))
  await connectUnlessAborted(client, signal, () =>
    setUpSession(client, COMMAND_BOUNDS, { wal_sender_timeout: `${patienceSeconds}s`, client_min_messages: 'warning' }),
  )
  const abandon = () => abandonClient(client)
  signal?.addEventListener('abort', abandon)
  const wire = (client as unknown as { connection: WireConnection }).connection
  try {
    const { rows } = await client.query<{ systemid: string; timeline: number }>('IDENTIFY_SYSTEM')
    const confirmed = await readConfirmed(client, slotName)
    let isIncomplete = false
    // PostgreSQL 18 skips the changes at which earlier servers end the stream.
    client.on('notice', ({ code, message }) => {
      if (code !== OBJECT_NOT_IN_PREREQUISITE_STATE) return
      isIncomplete = true
      fail(Object.assign(new Error(message), { code: UNDEFINED_OBJECT }))
    })
    wire.on('copyData', ({ chunk }: { chunk: Buffer }) => {
      if (isIncomplete) return
      if (chunk[0] === XLOG_DATA) onMessage({ kind: 'pgoutput', message: chunk.subarray(XLOG_DATA_HEADER_BYTES) })
      else if (chunk[0] === KEEPALIVE) onMessage({ kind: 'keepalive', walEnd: chunk.readBigUInt64BE(1), replyRequested: chunk[17] === 1 })
    })
    const started = new Promise<void>((resolve) => wire.once('replicationStart', () => resolve()))
    const options = sql`proto_version '1', publication_names ${literal(publication)}`
    const streaming = client.query(sql`START_REPLICATION SLOT ${identifier(slotName)} LOGICAL 0/0 (${options})`.text)
    streaming.then(() => fail(new Error('the server ended the stream')), fail)
    await Promise.race([started, broken])
    const ended = broken.catch((error) => {
      if (!closed) throw error
    })
    // An error before the caller waits must not end the process.
    ended.catch(() => {})
    return {
      logId: `${rows[0]?.systemid}.${rows[0]?.timeline}`,
      confirmed,
      ended,
      confirm(position) {
        if (wire.stream.writable) wire.sendCopyFromChunk(statusUpdate(position))
      },
      pause: () => void wire.stream.pause(),
      resume: () => void wire.stream.resume(),
      async close() {
        closed = true
        wire.stream.resume()
        await endClient(client, signal)
      },
    }
  } catch (error) {
    await endClient(client, signal)
    throw error
  } finally {
    signal?.removeEventListener('abort', abandon)
  }
}

/** Once the signal has aborted, it waits at most two seconds. */
async function endClient(client: pg.Client, signal: AbortSignal | undefined): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>()
  let timer: NodeJS.Timeout | undefined
  const onAbort = () => {
    timer = setTimeout(resolve, CLOSE_PATIENCE_MS)
  }
  if (signal?.aborted) onAbort()
  signal?.addEventListener('abort', onAbort)
  await Promise.race([client.end().catch(() => {}), late])
  signal?.removeEventListener('abort', onAbort)
  clearTimeout(timer)
  abandonClient(client)
}

async function readConfirmed(client: pg.Client, slotName: string): Promise<Lsn> {
  const { rows } = await client.query<{ confirmed: string }>(
    // A replication connection takes no parameters.
    sql`select pg_wal_lsn_diff(confirmed_flush_lsn, '0/0')::text as confirmed
    from pg_replication_slots
    where slot_name = ${literal(slotName)}`.text,
  )
  return BigInt(rows[0]?.confirmed ?? 0)
}

/** The topic has stored everything up to the position, so it is written, flushed and applied. */
function statusUpdate(position: Lsn): Buffer {
  const update = Buffer.alloc(STATUS_UPDATE_BYTES)
  update.writeUInt8(STATUS_UPDATE, 0)
  for (const offset of [1, 9, 17]) update.writeBigUInt64BE(position, offset)
  update.writeBigInt64BE((BigInt(Date.now()) - POSTGRES_EPOCH_MS) * 1000n, 25)
  return update
}
