import { createHash, createHmac } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

export interface S3Credentials {
  accessKeyId: string
  secretAccessKey: string
  region: string
}

interface SignedRequest {
  method: string
  url: string
  headers: IncomingHttpHeaders
  body: Buffer
}

const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, SignedHeaders=([^,]+), Signature=([\da-f]{64})$/
const MUST_BE_SIGNED = ['host', 'x-amz-content-sha256', 'x-amz-date']

/**
 * Why the request is refused, by AWS Signature Version 4; null when it is signed for this region with this key and
 * these bytes.
 */
export function refuseSignature({ method, url, headers, body }: SignedRequest, credentials: S3Credentials): string | null {
  const [, key, day = '', region = '', names = '', signature] = AUTHORIZATION.exec(headers.authorization ?? '') ?? []
  if (key !== credentials.accessKeyId) return 'InvalidAccessKeyId'
  if (region !== credentials.region) return 'AuthorizationHeaderMalformed'
  const signed = names.split(';')
  const isCovered = (name: string) => signed.includes(name)
  // The condition of the write must be signed too.
  const decisive = ['if-none-match', ...Object.keys(headers).filter((name) => name.startsWith('x-amz-meta-'))].filter(
    (name) => name in headers,
  )
  if (![...MUST_BE_SIGNED, ...decisive].every(isCovered)) return 'AccessDenied'
  const payload = String(headers['x-amz-content-sha256'])
  if (payload !== 'UNSIGNED-PAYLOAD' && payload !== hash(body)) return 'XAmzContentSHA256Mismatch'
  const { pathname, searchParams } = new URL(url, 'http://localhost')
  const query = [...searchParams].map(([name, value]) => `${encode(name)}=${encode(value)}`).sort()
  const canonical = [
    method,
    pathname,
    query.join('&'),
    ...signed.map((name) => `${name}:${String(headers[name]).trim().replace(/ +/g, ' ')}`),
    '',
    names,
    payload,
  ]
  const scope = `${day}/${region}/s3/aws4_request`
  const text = ['AWS4-HMAC-SHA256', headers['x-amz-date'], scope, hash(canonical.join('\n'))].join('\n')
  const signingKey = [day, region, 's3', 'aws4_request'].reduce<Buffer | string>(mac, `AWS4${credentials.secretAccessKey}`)
  return mac(signingKey, text).toString('hex') === signature ? null : 'SignatureDoesNotMatch'
}

function mac(key: Buffer | string, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}

function hash(bytes: string | Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}

function encode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
}
