import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { pino } from 'pino'
import { Type } from 'typebox'
import { onCleanup } from '../../test/cleanup.ts'
import { AppError } from '../errors.ts'
import { createHttpServer } from './server.ts'

const BODY = Buffer.alloc(700_000, 'x')
const PIECE = 65_536

/** Sends a whole request in pieces and then reads the answer, like a proxy that has buffered the request. */
async function exchange(port: number, head: string, end: string): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1' })
  const failed = new Promise<never>((_, reject) => socket.once('error', reject))
  failed.catch(() => {})
  const write = (bytes: Buffer | string) => Promise.race([failed, new Promise<void>((resolve) => socket.write(bytes, () => resolve()))])
  await write(head)
  for (let at = 0; at < BODY.length; at += PIECE) {
    await write(BODY.subarray(at, at + PIECE))
    await nextTurn()
  }
  await write(end)
  const parts: string[] = []
  socket.setEncoding('utf8').on('data', (text: string) => parts.push(text))
  await Promise.race([failed, once(socket, 'end')])
  return parts.join('')
}

for (const version of ['1.0', '1.1']) {
  test(`reads a refused body to its end, so its sender gets the answer: HTTP/${version}`, async (t) => {
    const server = await createHttpServer({
      logger: pino({ level: 'silent' }),
      baseUrl: 'http://localhost',
      authenticate: () => Promise.reject(new AppError('unauthenticated', 'Sign in.')),
    })
    const schema = { body: Type.Object({}) }
    server.post('/small', { config: { access: 'public', cost: 'memory' }, schema }, async () => 'read')
    server.post('/mine', { config: { access: 'caller', cost: 'order' }, schema }, async () => 'read')
    await server.listen({ host: '127.0.0.1', port: 0 })
    onCleanup(t, () => server.close())
    const { port } = server.server.address() as AddressInfo
    const json = 'content-type: application/json'
    const known = `content-length: ${BODY.length}`
    for (const [path, header, status] of [
      ['/small', `${json}\r\n${known}`, 413],
      ['/small', `content-type: text/plain\r\n${known}`, 415],
      ['/small', `${json}\r\ncontent-encoding: gzip\r\n${known}`, 415],
      ['/mine', `${json}\r\n${known}`, 401],
      ['/nowhere', `${json}\r\n${known}`, 404],
      ...(version === '1.1' ? [['/small', `${json}\r\ntransfer-encoding: chunked`, 413] as const] : []),
    ] as const) {
      const isChunked = header.includes('chunked')
      const head = `POST ${path} HTTP/${version}\r\nhost: localhost\r\nconnection: close\r\n${header}\r\n\r\n`
      const size = isChunked ? `${BODY.length.toString(16)}\r\n` : ''
      const answer = await exchange(port, head + size, isChunked ? '\r\n0\r\n\r\n' : '')
      assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} [^]*"status":${status},`), `${path} ${header}`)
    }
  })
}
