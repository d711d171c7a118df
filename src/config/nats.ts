import { ConfigError, type Settings } from './settings.ts'

/** How to reach the broker; paths are null when not set. Null without `NATS_URL`. Throws ConfigError. */
export function readNats({ optional, oneOf }: Settings) {
  const servers = optional('NATS_URL')
  const files = {
    credentialsFile: optional('NATS_CREDENTIALS'),
    caFile: optional('NATS_CA'),
    certFile: optional('NATS_CERT'),
    keyFile: optional('NATS_KEY'),
  }
  // An even number survives the loss of no more servers than the odd number below it.
  const replicas = Number(oneOf('NATS_REPLICAS', ['1', '3', '5'], '1'))
  if (servers === null) return null
  const isAddress = (text: string) => URL.canParse(text) && ['nats:', 'tls:'].includes(new URL(text).protocol) && new URL(text).host !== ''
  // The value is not printed: it may contain a password.
  if (!servers.split(',').every((server) => isAddress(server.trim()))) {
    throw new ConfigError('NATS_URL must list URLs that start with nats:// or tls://, with commas between')
  }
  if ((files.certFile === null) !== (files.keyFile === null)) throw new ConfigError('NATS_CERT and NATS_KEY must be set together')
  // A login in one of the servers is used for all.
  return Object.freeze({ servers, replicas, ...files })
}
