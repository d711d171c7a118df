import assert from 'node:assert/strict'
import { createPublicKey, createSecretKey, randomUUID } from 'node:crypto'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JWTPayload, SignJWT } from 'jose'
import { assertProblem } from '../../../test/problem.ts'
import { type Account, startStore, TEST_SECRET, type TestStore } from '../../../test/store.ts'
import { decrypt } from '../encryption.ts'

const ISSUER = 'http://localhost:3000'
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const decode = (part = '') => JSON.parse(Buffer.from(part, 'base64url').toString())

interface Forge {
  store: TestStore
  ada: Account
  /** Signs a token with the store's own key and other claims or headers; undefined removes one. */
  sign(claims?: Record<string, unknown>, header?: Record<string, unknown>): Promise<string>
}

/** The clock stands still, so no token ages. */
async function startForge(t: TestContext): Promise<Forge> {
  const now = new Date()
  const store = await startStore(t, { now: () => now })
  const ada = await store.register()
  const { rows } = await store.pool.query('select sealed_private_key from signing_keys')
  const key = await importJWK(JSON.parse(decrypt(TEST_SECRET, 'signing key', rows[0].sealed_private_key)), 'EdDSA')
  const [header, payload] = ada.token
    .split('.')
    .slice(0, 2)
    .map((part) => decode(part))
  const sign: Forge['sign'] = (claims = {}, changes = {}) => {
    const body = JSON.parse(JSON.stringify({ ...payload, ...claims })) as JWTPayload
    return new SignJWT(body).setProtectedHeader(JSON.parse(JSON.stringify({ ...header, ...changes }))).sign(key, { crit: { x: true } })
  }
  return { store, ada, sign }
}

/** Asserts 401 twice, because the second check may come from the cache. */
async function assertRefused(store: TestStore, token: string, what: string): Promise<void> {
  for (const _ of [1, 2]) {
    const answer = await store.call('GET', '/me', { token })
    assertProblem(answer, 401, 'invalid_token', what)
    assert.equal(answer.headers['www-authenticate'], 'Bearer realm="storefront", error="invalid_token"', what)
  }
}

test('is a JWT by RFC 9068 with exactly what a resource server needs', async (t) => {
  const { store, ada } = await startForge(t)
  const [header, payload] = ada.token
    .split('.')
    .slice(0, 2)
    .map((part) => decode(part))
  const jwks = await store.call('GET', '/.well-known/jwks.json')
  assert.deepEqual(header, { alg: 'EdDSA', typ: 'at+jwt', kid: jwks.json.keys[0].kid })
  assert.deepEqual(Object.keys(payload).sort(), ['aud', 'exp', 'iat', 'iss', 'jti', 'role', 'sid', 'sub'])
  assert.deepEqual(
    { ...payload, iat: 0, exp: payload.exp - payload.iat, jti: '', sid: '' },
    { iss: ISSUER, aud: ISSUER, sub: ada.id, role: 'customer', iat: 0, exp: 900, jti: '', sid: '' },
  )
  assert.deepEqual(Object.keys(jwks.json.keys[0]).sort(), ['alg', 'crv', 'kid', 'kty', 'use', 'x'], 'no private part')
})

test('is refused with another algorithm, however it is signed', async (t) => {
  const { store, ada } = await startForge(t)
  const [header = '', payload = '', signature = ''] = ada.token.split('.')
  const kid = decode(header).kid
  const jwk = (await store.ok('GET', '/.well-known/jwks.json')).keys[0]
  const publicKey = createPublicKey({ key: jwk, format: 'jwk' })
  for (const alg of ['none', 'None', 'NONE', '']) {
    const head = encode({ alg, typ: 'at+jwt', kid })
    await assertRefused(store, `${head}.${payload}.`, `alg ${alg} without a signature`)
    await assertRefused(store, `${head}.${payload}.${signature}`, `alg ${alg} with the signature`)
  }
  const secrets = {
    pem: publicKey.export({ type: 'spki', format: 'pem' }),
    der: publicKey.export({ type: 'spki', format: 'der' }),
    raw: Buffer.from(jwk.x, 'base64url'),
    jwk: Buffer.from(JSON.stringify(jwk)),
  }
  for (const [form, secret] of Object.entries(secrets)) {
    for (const alg of ['HS256', 'HS512']) {
      const key = createSecretKey(Buffer.concat([Buffer.from(secret)]))
      const token = await new SignJWT(decode(payload))
        .setProtectedHeader({ alg, typ: 'at+jwt', kid })
        .sign(key.export().length >= 64 ? key : createSecretKey(Buffer.concat([key.export(), Buffer.alloc(64)])))
      await assertRefused(store, token, `${alg} keyed with the public key (${form})`)
    }
  }
  for (const alg of ['ES256', 'RS256', 'PS256', 'Ed25519']) {
    const { privateKey, publicKey: other } = await generateKeyPair(alg, { extractable: true })
    const token = await new SignJWT(decode(payload)).setProtectedHeader({ alg, typ: 'at+jwt', kid }).sign(privateKey)
    await assertRefused(store, token, alg)
    const withKey = { alg, typ: 'at+jwt', kid, jwk: await exportJWK(other) }
    await assertRefused(store, await new SignJWT(decode(payload)).setProtectedHeader(withKey).sign(privateKey), `${alg} with its key`)
  }
})

test('is refused when a part was changed or is missing', async (t) => {
  const { store, ada, sign } = await startForge(t)
  const [header = '', payload = '', signature = ''] = ada.token.split('.')
  const bytes = Buffer.from(signature, 'base64url')
  bytes.writeUInt8(bytes.readUInt8(5) ^ 1, 5)
  const other = (await sign({ jti: randomUUID() })).split('.')
  const broken = {
    'empty signature': `${header}.${payload}.`,
    'no signature': `${header}.${payload}`,
    'one part': header,
    'no dots': `${header}${payload}${signature}`,
    'four parts': `${ada.token}.${signature}`,
    'a bit of the signature': `${header}.${payload}.${bytes.toString('base64url')}`,
    'half a signature': `${header}.${payload}.${signature.slice(0, 43)}`,
    "another token's signature": `${header}.${payload}.${other[2]}`,
    'edited payload': `${header}.${encode({ ...decode(payload), role: 'admin' })}.${signature}`,
    'edited header': `${encode({ ...decode(header), x: 1 })}.${payload}.${signature}`,
    'payload that is no JSON': `${header}.${Buffer.from('{').toString('base64url')}.${signature}`,
    'payload that is a list': `${header}.${encode([])}.${signature}`,
    padding: `${header}.${payload}.${signature}=`,
    'dots only': '..',
    text: 'null',
    'a megabyte': `${header}.${payload}.${'A'.repeat(1_000_000)}`,
    'a megabyte of dots': '.'.repeat(1_000_000),
  }
  for (const [what, token] of Object.entries(broken)) await assertRefused(store, token, what)
  await store.ok('GET', '/me', { token: ada.token })
})

test("is refused when the store's own key has signed wrong claims", async (t) => {
  const { store, ada, sign } = await startForge(t)
  const now = decode(ada.token.split('.')[1]).iat
  const wrong: Record<string, Record<string, unknown>> = {
    expired: { iat: now - 906, exp: now - 6 },
    'no exp': { exp: undefined },
    'exp as text': { exp: String(now + 60) },
    'exp beyond reason': { iat: now - 1_000, exp: now + 86_400 },
    'nbf in the future': { nbf: now + 60 },
    'iat more than five minutes ahead': { iat: now + 301, exp: now + 1_201 },
    'exp long after iat': { iat: now - 906, exp: now + 60 },
    'iat as text': { iat: String(now) },
    'no iat': { iat: undefined },
    'wrong iss': { iss: 'http://evil.example' },
    'no iss': { iss: undefined },
    'wrong aud': { aud: 'http://evil.example' },
    'no aud': { aud: undefined },
    'no sub': { sub: undefined },
    'no sid': { sid: undefined },
    'sid as a number': { sid: 7 },
    'no jti': { jti: undefined },
    'unknown role': { role: 'root' },
    'role as a list': { role: ['admin'] },
  }
  for (const [what, claims] of Object.entries(wrong)) await assertRefused(store, await sign(claims), what)
  const headers: Record<string, Record<string, unknown>> = {
    'typ JWT': { typ: 'JWT' },
    'no typ': { typ: undefined },
    'unknown crit': { crit: ['x'], x: 1 },
    'no kid': { kid: undefined },
  }
  for (const [what, header] of Object.entries(headers)) await assertRefused(store, await sign({}, header), what)
  for (const claims of [
    { exp: now - 2 },
    { nbf: now + 3 },
    { iat: now + 299, exp: now + 1_199 },
    { aud: [ISSUER, 'http://other.example'] },
  ]) {
    assert.equal(
      (await store.call('GET', '/me', { token: await sign(claims) })).status,
      200,
      `within the leeway: ${JSON.stringify(claims)}`,
    )
  }
  await store.ok('GET', '/me', { token: ada.token })
})

test('is verified only by keys in the database, whatever keys its header names or contains', async (t) => {
  const { store, ada, sign } = await startForge(t)
  const payload = decode(ada.token.split('.')[1])
  const { privateKey, publicKey } = await generateKeyPair('EdDSA', { extractable: true })
  const jwk = await exportJWK(publicKey)
  const kid = decode(ada.token.split('.')[0]).kid
  const evil = 'http://127.0.0.1:1/evil'
  const headers: Record<string, object> = {
    'embedded jwk': { jwk, kid },
    'embedded jwk and its own kid': { jwk, kid: await calculateJwkThumbprint(jwk) },
    jku: { jku: evil, kid },
    x5u: { x5u: evil, kid },
    x5c: { x5c: ['MIIB'], kid },
    'unknown kid': { kid: 'A'.repeat(43) },
    'kid as a path': { kid: '../../../../dev/null' },
    'kid as SQL': { kid: "' or 1=1 --" },
    'kid as a property': { kid: '__proto__' },
    'long kid': { kid: 'k'.repeat(1_000) },
  }
  for (const [what, header] of Object.entries(headers)) {
    const token = await new SignJWT(payload).setProtectedHeader({ alg: 'EdDSA', typ: 'at+jwt', ...header }).sign(privateKey)
    await assertRefused(store, token, what)
  }
  for (const kid of [7, null, ['a'], { toString: 'x' }]) {
    const [, body, signature] = ada.token.split('.')
    await assertRefused(store, `${encode({ alg: 'EdDSA', typ: 'at+jwt', kid })}.${body}.${signature}`, `kid ${JSON.stringify(kid)}`)
  }
  const good = await sign({}, { jwk, jku: evil, x5u: evil })
  assert.equal((await store.call('GET', '/me', { token: good })).status, 200, 'foreign keys are not looked at, not even to refuse')
})

test('is accepted only as a single bearer token in the Authorization header', async (t) => {
  const { store, ada } = await startForge(t)
  const basic = `Basic ${Buffer.from(`${ada.email}:${ada.password}`).toString('base64')}`
  for (const authorization of [
    basic,
    ada.token,
    `Bearer ${ada.token} x`,
    `Bearer ${ada.token},Bearer ${ada.token}`,
    'Bearer',
    'Bearer  ',
    '',
    'Digest x',
  ]) {
    const answer = await store.call('GET', '/me', { headers: { authorization } })
    assert.equal(answer.status, 401, authorization)
    assert.match(answer.headers['www-authenticate'] ?? '', /^Bearer realm="storefront"/)
  }
  for (const path of [`/me?access_token=${ada.token}`, `/me?token=${ada.token}`]) {
    assertProblem(await store.call('GET', path), 401, 'unauthenticated', 'in the query string')
  }
  assertProblem(await store.call('GET', '/me', { token: ada.refreshToken }), 401, 'invalid_token', 'a refresh token')
  await store.ok('GET', '/me', { headers: { authorization: `bEaReR ${ada.token}` } })
  const reverse = await store.call('POST', '/auth/refresh', { body: { refresh_token: ada.token } })
  assertProblem(reverse, 401, 'invalid_refresh_token', 'an access token as refresh token')
  assert.equal(reverse.headers['www-authenticate'], 'Bearer realm="storefront"')
})

test('is refused over a real connection when it is sent twice or is a megabyte long', async (t) => {
  const { store, ada } = await startForge(t)
  const { port } = store
  const ask = (lines: string[]) =>
    new Promise<string>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1')
      let answer = ''
      socket.on('data', (chunk) => {
        answer += chunk
      })
      socket.on('error', (error) => (answer === '' ? reject(error) : resolve(answer)))
      socket.on('close', () => resolve(answer))
      socket.write(['GET /me HTTP/1.1', 'Host: localhost', 'Connection: close', ...lines, '', ''].join('\r\n'))
    })
  const good = `Authorization: Bearer ${ada.token}`
  assert.match(await ask([good]), /^HTTP\/1\.1 200 /)
  for (const lines of [
    [good, good],
    [good, 'authorization: Basic eDp5'],
    ['AUTHORIZATION: Bearer x', good],
    [`Authorization: Bearer ${'A'.repeat(1_000_000)}`],
  ]) {
    const answer = await ask(lines)
    assert.match(answer, /^HTTP\/1\.1 401 /, lines.map((line) => line.slice(0, 30)).join())
    assert.match(answer, /\r\nwww-authenticate: Bearer realm="storefront", error="invalid_token"\r\n/i)
  }
})

test('is accepted only in its canonical encoding, though others decode to the same bytes', async (t) => {
  const { store, ada } = await startForge(t)
  const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  const [header = '', payload = '', signature = ''] = ada.token.split('.')
  const bytes = Buffer.from(signature, 'base64url')
  const others = [...ALPHABET].map((last) => signature.slice(0, -1) + last).filter((text) => Buffer.from(text, 'base64url').equals(bytes))
  assert.ok(others.length > 1, 'a signature of 64 bytes leaves four bits over')
  const spellings = [...others.filter((text) => text !== signature), `${signature}=`, `${signature}==`, `${signature}A`, `${signature}.`]
  for (const spelling of spellings) await assertRefused(store, `${header}.${payload}.${spelling}`, spelling)
  await assertRefused(store, `${header}=.${payload}.${signature}`, 'a padded header')
  await assertRefused(store, ada.token.replaceAll('-', '+').replaceAll('_', '/').replace(/$/, '='), 'plain base64')
  await store.ok('GET', '/me', { token: ada.token })
})

test('refresh tokens are accepted only in their canonical encoding', async (t) => {
  const { store, ada } = await startForge(t)
  const token = ada.refreshToken
  const refresh = (refresh_token: string) => store.call('POST', '/auth/refresh', { body: { refresh_token } })
  const same = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_']
    .map((last) => token.slice(0, -1) + last)
    .filter((text) => text !== token && Buffer.from(text, 'base64url').equals(Buffer.from(token, 'base64url')))
  assert.ok(same.length > 0)
  for (const spelling of [...same, `${token}=`, ` ${token}`, `${token}\n`, token.toLowerCase()]) {
    assertProblem(await refresh(spelling), 401, 'invalid_refresh_token', JSON.stringify(spelling))
  }
  assert.equal((await refresh(token)).status, 200, 'no other spelling has used it up')
})
