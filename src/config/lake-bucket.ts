import type { Settings } from './settings.ts'

const LAKE_URL = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/([A-Za-z0-9!_.'()=/-]*))?$/

/**
 * The lake's place in an object store, whose credentials AWS's SDK reads from its own settings. No `endpoint`: AWS; no `region`: as the SDK
 * finds it. Null without `LAKE_URL`.
 */
export function readLakeBucket({ setting, isSet, problems }: Settings) {
  const place = setting(
    'LAKE_URL',
    // A refused address is not shown: it may contain a key.
    {
      mustBe: 'an address such as s3://bucket/prefix, with letters, digits and - _ . = in the prefix',
      parse: parseLakeUrl,
      secrecy: 'url',
    },
    { value: null, documented: 'the lake is files in DATA_DIR' },
  )
  const endpoint = setting(
    'S3_ENDPOINT',
    { mustBe: 'a URL that starts with http:// or https:// and has no credentials', parse: parseEndpoint, secrecy: 'url' },
    { value: null, documented: 'that of AWS' },
  )
  // Most servers other than AWS ignore the region, but the signature must name one.
  const derived = endpoint === null ? null : 'us-east-1'
  const region = setting<string | null>(
    'AWS_REGION',
    { mustBe: 'a region such as eu-central-1', parse: (text) => text },
    { value: derived, documented: "as AWS's SDK finds it (us-east-1 with S3_ENDPOINT)", from: derived && 'S3_ENDPOINT' },
  )
  if (isSet('S3_ENDPOINT') && !isSet('LAKE_URL')) problems.push('S3_ENDPOINT needs LAKE_URL, such as s3://bucket/prefix')
  return place === null ? null : Object.freeze({ ...place, endpoint, region })
}

function parseLakeUrl(text: string) {
  const [, bucket, path = ''] = LAKE_URL.exec(text) ?? []
  const prefix = path.replace(/\/+$/, '')
  return bucket === undefined || /^\/|\/\/|(^|\/)\.\.?(\/|$)/.test(prefix) ? undefined : { bucket, prefix }
}

/** The credentials are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. */
function parseEndpoint(text: string) {
  const url = URL.canParse(text) ? new URL(text) : null
  return url !== null && ['http:', 'https:'].includes(url.protocol) && url.username + url.password === '' ? text : undefined
}

/** The variables that AWS's SDK finds region and credentials with, and authorities of TLS. */
export function readObjectStoreEnvironment({ optional, isSet }: Settings, env: NodeJS.ProcessEnv): Record<string, string> {
  // The store has no list of the SDK's variables: it knows only those that are set.
  const names = Object.keys(env).filter((name) => name.startsWith('AWS_') && name !== 'AWS_REGION')
  if (isSet('LAKE_URL')) for (const name of names) optional(name, "as AWS's SDK documents it", '', 'secret')
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] =>
      /^(?:AWS_\w+|HOME|NODE_EXTRA_CA_CERTS|SSL_CERT_(?:FILE|DIR))$/.test(entry[0]),
    ),
  )
}
