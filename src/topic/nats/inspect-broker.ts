import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { jetstreamErrorCode, type NatsSettings, NEEDED_PAYLOAD_BYTES, natsConnectOptions } from './connection.ts'
import { findMisconfiguration, STREAM_NOT_FOUND } from './stream.ts'

const MIN_VERSION = [2, 9]
const LARGEST_CLOCK_SECONDS = 300
const STREAM = 'orders'

export interface BrokerReport {
  version: string
  servers: number
  /** The number of replicas of the stream that have every message. */
  replicas: number
  doubts: Doubt[]
}

interface Doubt {
  isProblem: boolean
  what: string
  remedy: string
}

/**
 * A server confirms messages before they are on disk, unless a setting of releases from 2.10 on changes this. Clients
 * cannot request it.
 */
export function doubtSingleServer(version: string): Doubt | null {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major > 2 || (major === 2 && minor >= 10)) return null
  return {
    isProblem: false,
    what: `NATS ${version} is a single server, and a power failure loses its newest messages`,
    remedy:
      'run three servers with NATS_REPLICAS=3, or one of 2.10 or later with sync_interval: always; until then run storefront replay after a power failure',
  }
}

/** Inspects the broker and its stream without changes. Throws when no server accepts this client. */
export async function inspectBroker(
  settings: NatsSettings & { replicas: number },
  signal: AbortSignal,
  now: () => number,
): Promise<BrokerReport> {
  const options = {
    ...natsConnectOptions(settings, 'storefront-doctor'),
    reconnect: false,
    maxReconnectAttempts: 0,
    ignoreAuthErrorAbort: false,
  }
  const connection = await connect(options)
  signal.addEventListener('abort', () => void connection.close().catch(() => {}))
  try {
    const doubts: BrokerReport['doubts'] = []
    const { version = '', max_payload: maxPayload = 0, connect_urls: others = [] } = connection.info ?? {}
    const [major = 0, minor = 0] = version.split('.').map(Number)
    const [minMajor = 0, minMinor = 0] = MIN_VERSION
    if (major < minMajor || (major === minMajor && minor < minMinor))
      doubts.push({ isProblem: true, what: `NATS is ${version}`, remedy: `upgrade it to ${MIN_VERSION.join('.')} or later` })
    if (maxPayload < NEEDED_PAYLOAD_BYTES)
      doubts.push({
        ...{ isProblem: false, what: `max_payload is ${maxPayload}, and large orders need ${NEEDED_PAYLOAD_BYTES}` },
        remedy: 'raise max_payload, then run storefront replay where dead letters exist',
      })
    const manager = await jetstreamManager(connection)
    const info = await manager.streams.info(STREAM.toUpperCase()).catch((error: unknown) => {
      if (jetstreamErrorCode(error) !== STREAM_NOT_FOUND) throw error
      return null
    })
    if (info === null) {
      const remedy = 'start the store: its role stream creates the stream. If it existed before, run storefront replay afterwards'
      return {
        version,
        servers: others.length || 1,
        replicas: 0,
        doubts: [...doubts, { isProblem: true, what: `there is no stream ${STREAM.toUpperCase()}`, remedy }],
      }
    }
    const misconfigured = findMisconfiguration(info, STREAM)
    if (misconfigured !== null) doubts.push({ isProblem: true, what: misconfigured, remedy: 'set that with nats stream edit' })
    const { num_replicas: wanted } = info.config
    if (wanted < settings.replicas)
      doubts.push({
        isProblem: false,
        what: `the stream has ${wanted} replicas, and NATS_REPLICAS is ${settings.replicas}`,
        remedy: 'restart the role stream, which raises them',
      })
    const behind = (info.cluster?.replicas ?? []).filter(({ current, offline }) => !current || offline === true).map(({ name }) => name)
    const lone = others.length <= 1 && settings.replicas === 1 ? doubtSingleServer(version) : null
    if (lone !== null) doubts.push(lone)
    if (behind.length > 0)
      doubts.push({
        isProblem: false,
        what: `replicas of the stream are unavailable or behind: ${behind.join(', ')}`,
        remedy: 'start these servers, and look at their logs',
      })
    if (info.cluster !== undefined && info.cluster.leader === undefined)
      doubts.push({
        isProblem: true,
        what: 'the stream has no leader, so nothing can be published',
        remedy: 'start the servers of NATS until a majority runs',
      })
    // Servers send their time from 2.10 on.
    const { ts } = info as { ts?: string }
    const differs = ts === undefined ? 0 : Math.abs(now() - Date.parse(ts)) / 1_000
    if (differs > LARGEST_CLOCK_SECONDS)
      doubts.push({
        isProblem: false,
        what: `the clocks of this machine and NATS differ by ${differs.toFixed(0)} s`,
        remedy: 'set them by NTP',
      })
    return { version, servers: others.length || 1, replicas: wanted - behind.length, doubts }
  } finally {
    await connection.close()
  }
}
