import { ConfigError, type Settings } from './settings.ts'

/** How to reach the broker. Paths are null when not set. */
export interface NatsConfig {
  /** Addresses, separated by commas; a login in one of them is used for all. */
  readonly servers: string
  /** 1, 3 or 5: an even number survives the loss of no more servers than the odd number below it. */
  readonly replicas: number
  readonly credentialsFile: string | null
  readonly caFile: string | null
  readonly certFile: string | null
  readonly keyFile: string | null
}

/** Null without `NATS_URL`. Throws ConfigError. */
export function readNats({ optional, oneOf }: Settings): NatsConfig | null {
  const servers = optional('NATS_URL')
  const files = {
    credentialsFile: optional('NATS_CREDENTIALS'),
    caFile: optional('NATS_CA'),
    certFile: optional('NATS_CERT'),
    keyFile: optional('NATS_KEY'),
  }
  const replicas = Number(oneOf('NATS_REPLICAS', ['1', '3', '5'], '1'))
  if (servers === null) return null
  const isAddress = (text: string) => URL.canParse(text) && ['nats:', 'tls:'].includes(new URL(text).protocol) && new URL(text).host !== ''
  // The value is not printed: it may contain a password.
  if (!servers.split(',').every((server) => isAddress(server.trim()))) {
    throw new ConfigError('NATS_URL must list URLs that start with nats:// or tls://, with commas between')
  }
  if ((files.certFile === null) !== (files.keyFile === null)) throw new ConfigError('NATS_CERT and NATS_KEY must be set together')
  return Object.freeze({ servers, replicas, ...files })
}
