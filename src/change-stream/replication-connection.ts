import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import pg from 'pg'
import { abandonClient, CONNECT_TIMEOUT_MS, connectUnlessAborted, LASTING_CONNECTION } from '../db/pool.ts'
import { COMMAND_BOUNDS, setUpSession } from '../db/session-settings.ts'
import { identifier, literal, sql } from '../db/sql.ts'
import { OBJECT_NOT_IN_PREREQUISITE_STATE, UNDEFINED_OBJECT } from '../db/sql-state.ts'
import { withinMs } from '../within-ms.ts'
import type { Lsn } from './pgoutput.ts'

export type StreamMessage = { kind: 'pgoutput'; message: Buffer } | { kind: 'keepalive'; walEnd: Lsn; replyRequested: boolean }

// The message formats of https://www.postgresql.org/docs/current/protocol-replication.html
const XLOG_DATA = 0x77
const XLOG_DATA_HEADER_BYTES = 25
const KEEPALIVE = 0x6b
const STATUS_UPDATE = 0x72
const STATUS_UPDATE_BYTES = 34
const PATIENCE_SECONDS = 8
/**
 * Each status asks for an answer. A server that decodes a large transaction answers after half of `wal_sender_timeout`,
 * four seconds, and needs more only while its disk stalls.
 */
export const SILENCE_MS = 30_000
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
  /** The stream ends with ServerSilent when the server has sent nothing for this time. The default is 30,000. */
  silenceMs?: number | undefined
  /** Opening fails at once when the signal aborts. */
  signal?: AbortSignal | undefined
}

/** The server, or the network to it, may have failed without closing the connection. */
export class ServerSilent extends Error {
  override readonly name = 'ServerSilent'

  constructor(ms: number) {
    super(`the database server has not answered the change stream for ${Math.round(ms / 1_000)} s`)
  }
}

/**
 * `onMessage` must not throw. Throws SQLSTATE 55006 when another reader has the slot. The stream ends with 42704 at a
 * change that is older than the publication.
 */
export async function openReplication(
  url: string,
  slotName: string,
  onMessage: (message: StreamMessage) => void,
  { publication, patienceSeconds = PATIENCE_SECONDS, silenceMs = SILENCE_MS, signal }: ReplicationOptions,
): Promise<ReplicationConnection> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'storefront-stream',
    ...LASTING_CONNECTION,
    replication: 'database',
  } as pg.ClientConfig)
  let closed = false
  const { promise: broken, reject: fail } = Promise.withResolvers<never>()
  broken.catch(() => {})
  client.on('error', (error) => fail(error))
  client.on('end', () => fail(new Error('the replication connection was closed')))
  const wire = (client as unknown as { connection: WireConnection }).connection
  const isLate = new Error(`the database server has not opened the change stream within ${CONNECT_TIMEOUT_MS / 1_000} s`)
  const late = setTimeout(() => wire.stream.destroy(isLate), CONNECT_TIMEOUT_MS)
  const abandon = () => abandonClient(client)
  try {
    await connectUnlessAborted(client, signal, () =>
      setUpSession(client, COMMAND_BOUNDS, { wal_sender_timeout: `${patienceSeconds}s`, client_min_messages: 'warning' }),
    )
    signal?.addEventListener('abort', abandon)
    const { rows } = await client.query<{ systemid: string; timeline: number }>('IDENTIFY_SYSTEM')
    const confirmed = await readConfirmed(client, slotName)
    let isIncomplete = false
    // PostgreSQL 18 skips the changes at which earlier servers end the stream.
    client.on('notice', ({ code, message }) => {
      if (code !== OBJECT_NOT_IN_PREREQUISITE_STATE) return
      isIncomplete = true
      fail(Object.assign(new Error(message), { code: UNDEFINED_OBJECT }))
    })
    let heardAt = performance.now()
    wire.on('copyData', ({ chunk }: { chunk: Buffer }) => {
      heardAt = performance.now()
      if (isIncomplete) return
      if (chunk[0] === XLOG_DATA) onMessage({ kind: 'pgoutput', message: chunk.subarray(XLOG_DATA_HEADER_BYTES) })
      else if (chunk[0] === KEEPALIVE) onMessage({ kind: 'keepalive', walEnd: chunk.readBigUInt64BE(1), replyRequested: chunk[17] === 1 })
    })
    const started = new Promise<void>((resolve) => wire.once('replicationStart', () => resolve()))
    const options = sql`proto_version '1', publication_names ${literal(publication)}`
    const streaming = client.query(sql`START_REPLICATION SLOT ${identifier(slotName)} LOGICAL 0/0 (${options})`.text)
    streaming.then(() => fail(new Error('the server ended the stream')), fail)
    await Promise.race([started, broken])
    heardAt = performance.now()
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
        const silentMs = performance.now() - heardAt
        if (!wire.stream.isPaused() && silentMs > silenceMs) wire.stream.destroy(new ServerSilent(silentMs))
        else if (wire.stream.writable) wire.sendCopyFromChunk(statusUpdate(position))
      },
      pause: () => void wire.stream.pause(),
      resume() {
        // What has arrived during the pause is not read yet.
        if (wire.stream.isPaused()) heardAt = performance.now()
        wire.stream.resume()
      },
      async close() {
        closed = true
        wire.stream.resume()
        await endClient(client)
      },
    }
  } catch (error) {
    await endClient(client)
    throw error
  } finally {
    clearTimeout(late)
    signal?.removeEventListener('abort', abandon)
  }
}

async function endClient(client: pg.Client): Promise<void> {
  await withinMs(CLOSE_PATIENCE_MS, client.end(), null).catch(() => {})
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

/** The topic has stored everything up to the position, so it is written, flushed and applied. Asks for an answer. */
function statusUpdate(position: Lsn): Buffer {
  const update = Buffer.alloc(STATUS_UPDATE_BYTES)
  update.writeUInt8(STATUS_UPDATE, 0)
  for (const offset of [1, 9, 17]) update.writeBigUInt64BE(position, offset)
  update.writeBigInt64BE((BigInt(Date.now()) - POSTGRES_EPOCH_MS) * 1000n, 25)
  update.writeUInt8(1, 33)
  return update
}
