import { ConfigError, type Settings } from './settings.ts'

/** The lake's place in an object store. AWS's SDK reads the credentials from its own settings. */
export interface LakeBucket {
  readonly bucket: string
  /** Without slashes at its ends; empty for the bucket's root. */
  readonly prefix: string
  /** Null for AWS itself. */
  readonly endpoint: string | null
  /** Null: as the SDK finds it. */
  readonly region: string | null
}

const LAKE_URL = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/([A-Za-z0-9!_.'()=/-]*))?$/

/** Null without `LAKE_URL`. Throws ConfigError. */
export function readLakeBucket({ optional, url }: Settings): LakeBucket | null {
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
