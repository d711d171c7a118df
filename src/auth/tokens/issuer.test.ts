import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { makeCopies } from '../../../test/fresh-copies.ts'
import { collectLog } from '../../../test/logs.ts'
import { startSecondProcess, startStore } from '../../../test/store.ts'
import { claimIssuer, watchIssuer } from './issuer.ts'

const silent = pino({ level: 'silent' })
const [OLD, NEW] = ['https://shop.example', 'https://store.example/api']

test("an API process with another BASE_URL does not start, and one without accepts the others' tokens", async (t) => {
  const store = await startStore(t, { baseUrl: OLD, isBaseUrlGiven: true })
  await assert.rejects(startSecondProcess(t, store, { baseUrl: NEW }), {
    name: 'IssuerDiffers',
    message: `BASE_URL is ${NEW}, but the access tokens of this store are issued for ${OLD}: set BASE_URL to that in every process of the API, or run storefront issuer change with the new BASE_URL and restart them all with it`,
  })
  for (const settings of [{}, { baseUrl: 'http://localhost:3001', isBaseUrlGiven: false }]) {
    const other = await startSecondProcess(t, store, settings)
    const ada = await store.register()
    await other.ok('GET', '/me', { token: ada.token })
    const { email, password } = ada
    const json = await other.ok('POST', '/auth/login', { body: { email, password } })
    await store.ok('GET', '/me', { token: json.access_token })
  }
})

test('of two first starts at once, one sets the issuer; a store with one process replaces it with a warning', async (t) => {
  const { pool } = await startStore(t)
  await pool.query('delete from token_issuers')
  const shared = { isBaseUrlGiven: true, isAlone: false }
  const claims = await Promise.allSettled([OLD, NEW].map((baseUrl) => claimIssuer(pool, { ...shared, baseUrl }, silent)))
  assert.deepEqual(claims.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])

  const { logger, entries: lines } = collectLog<{ level: number; now?: string }>()
  const alone = { isBaseUrlGiven: true, isAlone: true }
  for (const baseUrl of [OLD, NEW]) assert.equal(await claimIssuer(pool, { ...alone, baseUrl }, logger), baseUrl)
  assert.ok(lines.length >= 1 && lines.every(({ level }) => level === 40))
  assert.equal(lines.at(-1)?.now, NEW)
  assert.equal(await claimIssuer(pool, { baseUrl: 'http://localhost:1', isBaseUrlGiven: false, isAlone: true }, logger), NEW)
})

test('a process that still has the old issuer after a change logs one error', async (t) => {
  const { url, pool } = await startStore(t)
  const { logger, entries: lines } = collectLog<{ msg: string; current?: string }>()
  const { copies, poll } = makeCopies(t, { url, pool })
  watchIssuer({ copies, issuer: 'http://localhost:3000', logger })
  await copies.start()
  assert.equal(lines.length, 0)
  await pool.query('update token_issuers set issuer = $1', [NEW])
  for (let i = 0; i < 3; i++) await poll()
  assert.deepEqual(
    lines.map(({ msg, current }) => [msg.split(':')[0], current]),
    [['the issuer of access tokens was changed', NEW]],
  )
})
