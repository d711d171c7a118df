import type { Settings } from './settings.ts'

/** The way to the broker; paths are null when not set. Null without `NATS_URL`. */
export function readNats({ optional, oneOf, setting, isSet, problems }: Settings) {
  const servers = setting(
    'NATS_URL',
    { mustBe: 'URLs that start with nats:// or tls://, with commas between', parse: parseServers, secrecy: 'url' },
    { value: null, documented: 'the topic is a table' },
  )
  const files = {
    credentialsFile: optional('NATS_CREDENTIALS', 'a file of credentials (JWT and NKey)'),
    caFile: optional('NATS_CA', 'a PEM file'),
    certFile: optional('NATS_CERT', 'a PEM file'),
    keyFile: optional('NATS_KEY', 'a PEM file'),
  }
  // An even number survives the loss of no more servers than the odd number below it.
  const replicas = Number(oneOf('NATS_REPLICAS', ['1', '3', '5'], '1'))
  if (isSet('NATS_URL') && isSet('NATS_CERT') !== isSet('NATS_KEY')) problems.push('NATS_CERT and NATS_KEY must be set together')
  // A login in one of the servers is used for all.
  return servers === null ? null : Object.freeze({ servers, replicas, ...files })
}

function parseServers(text: string): string | undefined {
  const isAddress = (server: string) =>
    URL.canParse(server) && ['nats:', 'tls:'].includes(new URL(server).protocol) && new URL(server).host !== ''
  return text.split(',').every((server) => isAddress(server.trim())) ? text : undefined
}
