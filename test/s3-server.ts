import { createHash, randomUUID } from 'node:crypto'
import { linkSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, unlinkSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { refuseSignature } from './s3-signature.ts'

/** What goes wrong with one request; nothing of it by default. */
export interface S3Fault {
  /** Awaited before the request is processed: delays a request, even when its client has gone. */
  before?: () => Promise<void> | void
  /** Sent instead of processing the request. */
  status?: 403 | 409 | 500 | 503
  /** Awaited after processing, before the answer. */
  after?: () => Promise<void> | void
  /** Processes the request, and cuts the connection instead of answering. */
  losesAnswer?: boolean
}

export interface S3Request {
  method: string
  /** Empty for a listing. */
  key: string
}

export interface S3Server {
  url: string
  bucket: string
  /** The folder of the objects; each is a file with the name of its key. */
  folder: string
  /** The environment of processes that use it. */
  env: Record<string, string>
  requests: S3Request[]
  /** Called for each request; may be replaced at any time. */
  fault: (request: S3Request) => S3Fault | undefined
}

/** What the server does with `If-None-Match`: some ignore it (s3rver), others refuse the request (OpenStack Swift). */
export type Conditions = 'kept' | 'ignored' | 'refused'

const CREDENTIALS = { accessKeyId: 'TESTKEY', secretAccessKey: 'a secret of tests', region: 'test-region-1' }
const CODES = { 403: 'AccessDenied', 409: 'ConditionalRequestConflict', 500: 'InternalError', 503: 'SlowDown' }
const BUCKET = 'test-bucket'

/**
 * A server of the part of S3's protocol that a lake needs: PUT with If-None-Match, GET, HEAD, DELETE and
 * ListObjectsV2 in pages, path style, with checked signatures. An upload that breaks off leaves nothing; objects are
 * files on disk.
 */
export async function startS3Server(t: Cleanup, { pageSize = 1_000, conditions = 'kept' as Conditions } = {}): Promise<S3Server> {
  const root = mkdtempSync(join(tmpdir(), 'storefront-s3-'))
  const objects = new Objects(root, conditions)
  const state: Pick<S3Server, 'fault' | 'requests'> = { fault: () => undefined, requests: [] }
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy())
  })
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const body = Buffer.concat(chunks)
    const { method = '', url = '', headers } = request
    const { pathname, searchParams } = new URL(url, 'http://localhost')
    const [, bucket, ...parts] = pathname.split('/').map(decodeURIComponent)
    const key = parts.join('/')
    state.requests.push({ method, key })
    const refusal = refuseSignature({ method, url, headers, body }, CREDENTIALS)
    if (refusal !== null) return fail(response, 403, refusal)
    if (bucket !== BUCKET) return fail(response, 404, 'NoSuchBucket')
    const fault = state.fault({ method, key }) ?? {}
    await fault.before?.()
    if (fault.status !== undefined) return fail(response, fault.status, CODES[fault.status])
    const result = key === '' ? objects.list(searchParams, pageSize) : objects.handle(method, key, headers, body)
    await fault.after?.()
    if (fault.losesAnswer) return void response.destroy()
    if (typeof result.body === 'string' && result.status >= 400) return fail(response, result.status, result.body)
    response.writeHead(result.status, result.headers).end(method === 'HEAD' ? undefined : result.body)
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  onCleanup(t, () => {
    server.close()
    server.closeAllConnections()
    rmSync(root, { recursive: true, force: true })
  })
  const { accessKeyId, secretAccessKey, region } = CREDENTIALS
  const env = { AWS_REGION: region, AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, S3_ENDPOINT: url }
  return Object.assign(state, { url, bucket: BUCKET, folder: objects.folder, env })
}

interface Result {
  status: number
  headers?: Record<string, string>
  /** The content, or the code of an error. */
  body?: string | Buffer
}

class Objects {
  readonly folder: string
  readonly #uploads: string
  readonly #conditions: Conditions
  readonly #metadata = new Map<string, Record<string, string>>()

  constructor(root: string, conditions: Conditions) {
    this.#conditions = conditions
    this.folder = join(root, 'objects')
    this.#uploads = join(root, 'uploads')
    mkdirSync(this.folder)
    mkdirSync(this.#uploads)
  }

  handle(method: string, key: string, headers: IncomingMessage['headers'], body: Buffer): Result {
    const path = join(this.folder, key)
    if (method === 'PUT') return this.#put(key, path, headers, body)
    const bytes = readOrNull(path)
    if (method === 'DELETE') {
      if (bytes !== null) unlinkSync(path)
      return { status: 204 }
    }
    if (bytes === null) return { status: 404, body: 'NoSuchKey' }
    const etag = { etag: tagOf(bytes), 'content-length': String(bytes.length) }
    return { status: 200, headers: { ...this.#metadata.get(key), ...etag }, body: bytes }
  }

  list(query: URLSearchParams, pageSize: number): Result {
    const prefix = query.get('prefix') ?? ''
    const after = Buffer.from(query.get('continuation-token') ?? '', 'base64url').toString() || (query.get('start-after') ?? '')
    const names = readdirSync(this.folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    const keys = names.map(({ parentPath, name }) => join(parentPath, name).slice(this.folder.length + 1)).sort()
    const wanted = keys.filter((key) => key.startsWith(prefix) && key > after)
    const page = wanted.slice(0, pageSize)
    const contents = page.map((key) => {
      const { size, mtime } = statSync(join(this.folder, key))
      const tag = tagOf(readFileSync(join(this.folder, key)))
      return `<Contents><Key>${escapeXml(key)}</Key><LastModified>${mtime.toISOString()}</LastModified><ETag>${escapeXml(tag)}</ETag><Size>${size}</Size></Contents>`
    })
    const isTruncated = page.length < wanted.length
    const token = isTruncated
      ? `<NextContinuationToken>${Buffer.from(page.at(-1) ?? '').toString('base64url')}</NextContinuationToken>`
      : ''
    const body = `<ListBucketResult><IsTruncated>${isTruncated}</IsTruncated>${token}${contents.join('')}</ListBucketResult>`
    return { status: 200, headers: { 'content-type': 'application/xml' }, body: Buffer.from(body) }
  }

  #put(key: string, path: string, headers: IncomingMessage['headers'], body: Buffer): Result {
    if (body.length !== Number(headers['content-length'])) return { status: 400, body: 'IncompleteBody' }
    const upload = join(this.#uploads, randomUUID())
    writeFileSync(upload, body)
    mkdirSync(dirname(path), { recursive: true })
    if (this.#conditions === 'refused' && headers['if-none-match'] !== undefined) return { status: 501, body: 'NotImplemented' }
    if (this.#conditions === 'ignored' || headers['if-none-match'] !== '*') rmSync(path, { force: true })
    try {
      linkSync(upload, path)
    } catch {
      return { status: 412, body: 'PreconditionFailed' }
    } finally {
      unlinkSync(upload)
    }
    const metadata = Object.entries(headers).filter(([name]) => name.startsWith('x-amz-meta-'))
    this.#metadata.set(key, Object.fromEntries(metadata.map(([name, value]) => [name, String(value)])))
    return { status: 200, headers: { etag: tagOf(body) } }
  }
}

function fail(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { 'content-type': 'application/xml' }).end(`<Error><Code>${code}</Code><Message>${code}</Message></Error>`)
}

function readOrNull(path: string): Buffer | null {
  try {
    return readFileSync(path)
  } catch {
    return null
  }
}

function tagOf(bytes: Buffer): string {
  return `"${createHash('md5').update(bytes).digest('hex')}"`
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}
