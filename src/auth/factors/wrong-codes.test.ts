import assert from 'node:assert/strict'
import { mock, type TestContext, test } from 'node:test'
import { readAccountMails } from '../../../test/account-mails.ts'
import { assertProblem } from '../../../test/problem.ts'
import { addPasskey, addTotp, askedForFactor, signInByPasskey, timeForCodes } from '../../../test/second-factor.ts'
import { type Account, type Answer, startSecondProcess, startStore, type TestStore } from '../../../test/store.ts'
import { takeTurns } from '../../../test/take-turns.ts'
import { inTransaction } from '../../db/transaction.ts'
import { WRONG_CODES_OF_ACCOUNT } from '../limits.ts'
import { insertChallenge } from './challenges.ts'

const ATTACKER = '203.0.113.7'
const OWNER = '198.51.100.20'

// The limits use the wall clock. It is stopped at the start of a thirty-second code step, so `timeForCodes` never
// waits.
mock.timers.enable({ apis: ['Date'], now: Date.now() - (Date.now() % 30_000) })

const start = (t: TestContext) => startStore(t, { isRateLimited: true })

/** The challenge that follows a correct password. It is inserted directly, because hashing a password is slow. */
const challengeOf = ({ pool }: TestStore, { id }: Account) =>
  inTransaction(pool, (tx) =>
    insertChallenge(tx, { purpose: 'second_factor', userId: id, sessionId: null, provenBy: 'password' }, new Date()),
  )

const complete = ({ call }: Pick<TestStore, 'call'>, body: object, from: string) => call('POST', '/auth/second-factor', { body, from })

/** Answers with wrong codes, five for each challenge. */
async function guess(store: TestStore, account: Account, times: number, from: (attempt: number) => string): Promise<Answer[]> {
  const answers: Answer[] = []
  let challenge = ''
  for (let attempt = 0; attempt < times; attempt++) {
    if (attempt % 5 === 0) challenge = await challengeOf(store, account)
    answers.push(await complete(store, { challenge, totp_code: '000000' }, from(attempt)))
  }
  return answers
}

const countByStatus = (answers: Answer[]) =>
  Object.fromEntries([...Map.groupBy(answers, ({ status }) => status)].map(([status, group]) => [status, group.length]))

test('slows down a person who has the password and guesses codes, while the owner signs in elsewhere with the app', async (t) => {
  const store = await start(t)
  const ada = await store.register()
  const { codeAt } = await addTotp(store, ada.token, await timeForCodes())
  const answers = await guess(store, ada, 20, () => ATTACKER)
  assert.deepEqual(countByStatus(answers), { 422: 6, 429: 14 }, 'five are free, and one after the first delay')
  const refusal = answers.at(-1)
  assert.ok(refusal !== undefined)
  assertProblem(refusal, 429, 'rate_limited')
  assert.equal(refusal.headers['ratelimit-policy'], '"second-factor";q=5;w=3600')
  const right = { challenge: await challengeOf(store, ada), totp_code: codeAt(new Date()) }
  assertProblem(await complete(store, right, ATTACKER), 429, 'rate_limited', 'not even the right one, for now')
  assert.equal((await complete(store, right, OWNER)).status, 200)
})

test('passkeys and recovery codes complete a sign-in at an address where codes are delayed', async (t) => {
  const store = await start(t)
  const ada = await store.register()
  const { recoveryCodes } = await addTotp(store, ada.token, await timeForCodes())
  const { authenticator } = await addPasskey(store, ada.token)
  assert.equal((await guess(store, ada, 8, () => OWNER)).at(-1)?.status, 429)
  const asked = await askedForFactor(store, ada)
  const passkey = authenticator.answer(asked.passkey_options ?? { challenge: '' })
  assert.equal((await complete(store, { challenge: asked.challenge, passkey }, OWNER)).status, 200)
  const again = { challenge: await challengeOf(store, ada), recovery_code: recoveryCodes?.[0] }
  assert.equal((await complete(store, again, OWNER)).status, 200)
  assert.equal((await signInByPasskey(store, authenticator)).status, 200)
})

test("an account's wrong codes from all addresses together, in two processes at once, are limited to a hundred a day", async (t) => {
  const store = await start(t)
  const other = await startSecondProcess(t, store)
  const [ada, bob] = [await store.register(), await store.register()]
  const { codeAt, recoveryCodes } = await addTotp(store, ada.token, await timeForCodes())
  const bobs = await addTotp(store, bob.token, await timeForCodes())
  const attempts: (() => Promise<Answer>)[] = []
  for (let network = 0; network < 26; network++) {
    const body = { challenge: await challengeOf(store, ada), totp_code: '000000' }
    for (let attempt = 0; attempt < 5; attempt++)
      attempts.push(() => takeTurns(() => complete(attempt % 2 === 0 ? store : other, body, `192.0.2.${network}`)))
  }
  const answers = await Promise.all(attempts.map((run) => run()))
  assert.deepEqual(countByStatus(answers), { 422: WRONG_CODES_OF_ACCOUNT.points, 429: 130 - WRONG_CODES_OF_ACCOUNT.points })
  const right = async () => ({ challenge: await challengeOf(store, ada), totp_code: codeAt(new Date()) })
  const refused = await complete(store, await right(), OWNER)
  assertProblem(refused, 429, 'rate_limited')
  assert.equal(refused.headers['ratelimit-policy'], '"second-factor-account";q=100;w=86400')
  const body = { challenge: await challengeOf(store, ada), recovery_code: recoveryCodes?.[0] }
  assert.equal((await complete(store, body, OWNER)).status, 200, 'a recovery code')
  const stepUp = { totp_code: codeAt(new Date()) }
  assert.equal((await ada.call('POST', '/auth/step-up', { body: stepUp })).status, 204, 'in an open session')
  const bobsCode = { challenge: await challengeOf(store, bob), totp_code: bobs.codeAt(new Date()) }
  assert.equal((await complete(store, bobsCode, OWNER)).status, 200, 'another account')
  await store.pool.query(`update rate_limits set expire = 1 where key like 'second-factor-account:%'`)
  const next = { challenge: await challengeOf(store, ada), totp_code: codeAt(new Date(), 1) }
  assert.equal((await complete(store, next, OWNER)).status, 200, 'the next day')
})

test('wrong codes of a step-up delay the codes of their own session and no sign-in', async (t) => {
  const store = await start(t)
  const ada = await store.register()
  const { codeAt, recoveryCodes } = await addTotp(store, ada.token, await timeForCodes())
  const asked = { challenge: await challengeOf(store, ada), recovery_code: recoveryCodes?.[0] }
  const other = (await complete(store, asked, OWNER)).json.access_token
  const stepUp = (token: string, body: object) => store.call('POST', '/auth/step-up', { token, body })
  const answers: Answer[] = []
  for (let attempt = 0; attempt < 9; attempt++) answers.push(await stepUp(ada.token, { totp_code: '000000' }))
  assert.deepEqual(countByStatus(answers), { 422: 6, 429: 3 })
  assertProblem(await stepUp(ada.token, { totp_code: codeAt(new Date()) }), 429, 'rate_limited')
  assert.equal((await stepUp(ada.token, { recovery_code: recoveryCodes?.[1] })).status, 204)
  assert.equal((await stepUp(other, { totp_code: codeAt(new Date()) })).status, 204, 'another session of the account')
  const signIn = { challenge: await challengeOf(store, ada), totp_code: codeAt(new Date(), 1) }
  assert.equal((await complete(store, signIn, OWNER)).status, 200)
})

test('a correct code resets the delay, and wrong codes are mailed to the owner once a day', async (t) => {
  const store = await start(t)
  const ada = await store.register()
  const { codeAt } = await addTotp(store, ada.token, await timeForCodes())
  const mails = async () => (await readAccountMails(store)).filter(({ kind, to }) => kind === 'second_factor_failed' && to === ada.email)
  await guess(store, ada, 4, () => OWNER)
  assert.equal((await mails()).length, 0, 'people mistype')
  const right = { challenge: await challengeOf(store, ada), totp_code: codeAt(new Date()) }
  assert.equal((await complete(store, right, OWNER)).status, 200)
  assert.deepEqual(countByStatus(await guess(store, ada, 5, () => OWNER)), { 422: 5 })
  await guess(store, ada, 5, () => ATTACKER)
  assert.equal((await mails()).length, 1)
})
