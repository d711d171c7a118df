import { ConfigError, type Settings } from './settings.ts'

const LAKE_URL = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/([A-Za-z0-9!_.'()=/-]*))?$/

/**
 * The lake's place in an object store, whose credentials AWS's SDK reads from its own settings. No `endpoint`: AWS; no `region`: as the SDK
 * finds it. Null without `LAKE_URL`. Throws ConfigError.
 */
export function readLakeBucket({ optional, url }: Settings) {
  const address = optional('LAKE_URL')
  const endpoint = url('S3_ENDPOINT', ['http:', 'https:'])
  if (address === null) {
    if (endpoint !== null) throw new ConfigError('S3_ENDPOINT needs LAKE_URL, such as s3://bucket/prefix')
    return null
  }
  const [, bucket, path = ''] = LAKE_URL.exec(address) ?? []
  const prefix = path.replace(/\/+$/, '')
  // The value is not printed: it may contain a key.
  if (bucket === undefined || /^\/|\/\/|(^|\/)\.\.?(\/|$)/.test(prefix)) {
    throw new ConfigError('LAKE_URL must look like s3://bucket/prefix, with letters, digits and - _ . = in the prefix')
  }
  if (endpoint !== null && (new URL(endpoint).username !== '' || new URL(endpoint).password !== '')) {
    throw new ConfigError('S3_ENDPOINT must contain no credentials; they are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY')
  }
  // Most servers other than AWS ignore the region, but the signature must name one.
  const region = optional('AWS_REGION') ?? (endpoint === null ? null : 'us-east-1')
  return Object.freeze({ bucket, prefix, endpoint, region })
}

/** The variables that AWS's SDK finds region and credentials with, and authorities of TLS. */
export function readObjectStoreEnvironment(env: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] =>
      /^(?:AWS_\w+|HOME|NODE_EXTRA_CA_CERTS|SSL_CERT_(?:FILE|DIR))$/.test(entry[0]),
    ),
  )
}
