import type { ListedRoute } from '../../src/http/route-list.ts'
import { JSON_TYPE, NDJSON_TYPE, worstBodies } from './worst-bodies.ts'

/** A request that makes a route work as hard as one of the limits allows. */
export interface WorstRequest {
  name: string
  bytes: Uint8Array
}

/** What Node.js takes of request line and headers (16 KiB), less what every request has. */
const HEAD_BYTES = 14_500
const ID = '01900000-0000-7000-8000-000000000000'

/** Texts that are hard on somebody: lists, quotes, escapes, white space, digits. */
const FILLERS = ['"a",', ',', 'a ', ' ', 'br;q=0']
const HEADERS = [
  ...['accept', 'accept-encoding', 'access-control-request-headers', 'content-type', 'cookie', 'expect', 'forwarded', 'host', 'if-match'],
  ...['if-none-match', 'idempotency-key', 'origin', 'range', 'traceparent', 'user-agent', 'x-forwarded-for', 'x-request-id'],
]

/** A filler in a title; one space would be invisible. */
const labelOf = (filler: string) => filler.trim() || 'spaces'
const fill = (filler: string, length: number) => filler.repeat(Math.floor(length / filler.length))

/** The requests to make: all, or those that a short test sends. */
export interface WorstRequestOptions {
  /** A token for each request: some end their session. */
  nextToken: () => string
  isThorough: boolean
}

/** The worst requests to a route: what each limit lets in, and what is just past it. */
export function* worstRequests(route: ListedRoute, { nextToken, isThorough }: WorstRequestOptions): Generator<WorstRequest> {
  const path = route.url.replaceAll(/:\w+/g, ID)
  const request = (name: string, target: string, headers: readonly string[], body: Uint8Array = new Uint8Array()): WorstRequest => {
    const authorization = headers.some((header) => header.startsWith('authorization')) ? [] : [`authorization: Bearer ${nextToken()}`]
    const all = ['host: localhost', 'connection: close', ...authorization, ...headers]
    return { name, bytes: Buffer.concat([Buffer.from(`${route.method} ${target} HTTP/1.1\r\n${all.join('\r\n')}\r\n\r\n`), body]) }
  }
  yield request('nothing', path, [])
  yield request(
    'many headers',
    path,
    Array.from({ length: HEAD_BYTES / 10 }, (_, index) => `a${index}: 1`),
  )
  yield request('a header many times', path, Array(HEAD_BYTES / 10).fill('if-match: *'))
  // What reads the headers of a HEAD request reads those of a GET.
  for (const filler of route.method === 'HEAD' ? [] : FILLERS.slice(0, isThorough ? FILLERS.length : 1)) {
    yield request(`header authorization: ${labelOf(filler)} repeated`, path, [`authorization: Bearer ${fill(filler, HEAD_BYTES)}x`])
    for (const header of HEADERS)
      yield request(`header ${header}: ${labelOf(filler)} repeated`, path, [`${header}: ${fill(filler, HEAD_BYTES)}x`])
  }
  yield request('a long path', `${path}${fill('a', HEAD_BYTES)}`, [])
  yield request('a path of slashes', `${path}${fill('/', HEAD_BYTES)}`, [])
  yield request('a path of escapes', `${path}${fill('%41', HEAD_BYTES)}`, [])
  for (const [name, query] of worstQueries(route)) yield request(name, `${path}?${query}`, [])
  for (const { name, type, bytes } of worstBodies(route, isThorough)) {
    const headers = [`content-type: ${type}`]
    yield request(name, path, [...headers, `content-length: ${bytes.length}`], bytes)
  }
  if (route.method === 'GET' || route.method === 'HEAD') return
  const headers = [`content-type: ${route.bodyLimitBytes > CHUNKED_BYTES ? NDJSON_TYPE : JSON_TYPE}`, 'transfer-encoding: chunked']
  const chunks = Buffer.from(`${'1\r\n1\r\n'.repeat(Math.min(route.bodyLimitBytes, CHUNKED_BYTES))}0\r\n\r\n`)
  yield request('chunks of a byte', path, headers, chunks)
}

/** Size of the bodies that are sent in chunks of a byte. */
const CHUNKED_BYTES = 300_000

function* worstQueries({ schema }: ListedRoute): Generator<[name: string, query: string]> {
  const several = (parameter: (index: number) => string) => {
    const parameters: string[] = []
    for (let length = 0; length < HEAD_BYTES; length += parameters.at(-1)?.length ?? 0) parameters.push(`${parameter(parameters.length)}&`)
    return parameters.join('').slice(0, HEAD_BYTES)
  }
  yield ['one parameter repeated', several(() => 'a')]
  yield ['one parameter with many values', several((index) => `limit=${index}`)]
  yield ['many parameters', several((index) => `a${index}`)]
  yield ['only separators', fill('&', HEAD_BYTES)]
  yield ['invalid escapes', several(() => '%f=%')]
  const { properties = {} } = (schema.querystring ?? {}) as { properties?: Record<string, unknown> }
  for (const name of Object.keys(properties)) {
    yield [`parameter ${name} repeated`, several((index) => `${name}=${index}`)]
    for (const filler of ['1', 'a', '%20', 'a+', ',', `${ID},`, '-', '%F0%9F%92%A1', '%00', '%CC%88']) {
      yield [`parameter ${name}: ${labelOf(filler)} repeated`, `${name}=${fill(filler, HEAD_BYTES)}`]
      yield [`parameter ${name}: 190 bytes of ${labelOf(filler)}`, `${name}=${fill(filler, 190)}&limit=7`]
    }
  }
  if ('cursor' in properties) yield ['the longest cursor', `cursor=${fill('A', 2_000)}`]
  if ('ids' in properties) {
    const ids = Array.from({ length: 100 }, (_, index) => `${ID.slice(0, -3)}${100 + index}`)
    yield ['a hundred ids', `ids=${ids.join(',')}&limit=7`]
  }
  if ('q' in properties) {
    const words = Array.from({ length: 20 }, (_, index) => String.fromCharCode(97 + index))
    yield ['twenty words', `q=${words.join('+')}`]
    yield [
      'twenty words that are excluded',
      `q=lamp+${words
        .slice(1)
        .map((word) => `-${word}`)
        .join('+')}`,
    ]
  }
}
