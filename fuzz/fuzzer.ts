import fc from 'fast-check'
import { checkAnswer } from './check-answer.ts'
import { NoAnswer } from './connection.ts'
import { type Operation, readContract } from './contract.ts'
import type { FuzzedStore } from './fuzzed-store.ts'
import { Judge } from './judge.ts'
import { Known } from './known.ts'
import { mutate, mutationsOf } from './mutations.ts'
import { describeRequest, type FuzzRequest } from './request.ts'
import { send } from './send.ts'
import { createShop } from './shop.ts'
import { Tally } from './tally.ts'
import { validRequest } from './valid-request.ts'

export interface FuzzOptions {
  store: FuzzedStore
  seed: number
  /** Names of operations, such as `POST /orders`. By default all operations. */
  routes?: readonly string[]
  /** The run ends with the first of these limits. */
  rounds?: number
  untilMs?: number
  /**
   * Sends more valid requests of operations without a success so far. Excludes the operations in the set, which seldom
   * succeed.
   */
  reachingAllBut?: ReadonlySet<string>
  /** Whether to end at the first finding. */
  isEndingEarly?: boolean
  log?: (line: string) => void
}

/** A rule that an answer broke, with the smallest request that shows it. */
export interface Violation {
  route: string
  faults: string[]
  request: string
}

export interface FuzzReport {
  seed: number
  rounds: number
  tally: Tally
  violations: Violation[]
}

/** The requests of each operation in a round. Shrinking adds further ones. */
const RUNS = 6
/** Operations that remove an account or a session that others need. */
const DESTRUCTIVE =
  /^(DELETE \/me|POST \/auth\/logout|POST \/auth\/password|POST \/auth\/password-reset\/confirm|DELETE \/auth\/sessions\/\{id\})$/
const DESTRUCTIVE_RUNS = 2
const MORE_ROUNDS = 10
/** The most requests to make a finding smaller. */
const SHRINKING_RUNS = 80

/** Sends rounds of requests, some of each operation, and checks each answer. Then audits the store's state. */
export async function fuzz(options: FuzzOptions): Promise<FuzzReport> {
  const { store, seed, routes = [], rounds = Number.POSITIVE_INFINITY, untilMs = Number.POSITIVE_INFINITY, log = () => {} } = options
  const contract = await readContract()
  const operations = contract.operations.filter(({ name }) => routes.length === 0 || routes.includes(name))
  if (operations.length === 0) throw new Error(`no route ${routes.join(', ')} in ${contract.operations.map(({ name }) => name).join(', ')}`)
  const judge = new Judge(contract)
  const known = new Known(store.mailFolder)
  const shop = createShop(store, known, contract)
  const tally = new Tally(operations)
  const violations = new Map<string, Violation>()
  let round = 0
  for (; round < rounds && Date.now() < untilMs; round++) {
    for (const [index, operation] of operations.entries()) {
      if (Date.now() >= untilMs || (options.isEndingEarly && violations.size > 0)) break
      await shop.stockUp({ needsToken: needsToken(operation) })
      const isNew = (faults: readonly string[]) => !violations.has(keyOf(operation, faults))
      const found = await probe({ operation, seed: seed + round * 1_000 + index, judge, known, tally, port: store.port, isNew })
      if (found === null) continue
      violations.set(keyOf(operation, found.faults), found)
      log(`${found.route}: ${found.faults.join('; ')}\n${indent(found.request)}`)
    }
  }
  const { reachingAllBut } = options
  for (let more = 0; reachingAllBut !== undefined && more < MORE_ROUNDS; more++) {
    const unreached = operations.filter(({ name }) => tally.neverDone().includes(name) && !reachingAllBut.has(name))
    for (const [index, operation] of unreached.entries()) {
      await shop.stockUp({ needsToken: needsToken(operation) })
      const probing = { operation, seed: seed - (more + 1) * 1_000 - index, judge, known, tally, port: store.port }
      await probe({ ...probing, isNew: () => false, isValidOnly: true })
    }
  }
  for (const fault of await store.audit()) {
    violations.set(fault, { route: 'afterwards', faults: [fault], request: '' })
    log(`afterwards: ${fault}`)
  }
  return { seed, rounds: round, tally, violations: [...violations.values()] }
}

function needsToken({ body }: Operation): boolean {
  return body?.schema?.properties?.token !== undefined
}

/** The key of a finding, equal for findings that most likely have one cause. */
function keyOf({ name }: Operation, [fault = '']: readonly string[]): string {
  return `${name} ${fault.replaceAll(/\d{4,}|"[^"]*"|\(.*/g, '…')}`
}

interface ProbeOptions {
  operation: Operation
  seed: number
  judge: Judge
  known: Known
  tally: Tally
  port: number
  /** Whether the same fault was not found before. */
  isNew: (faults: readonly string[]) => boolean
  isValidOnly?: boolean
}

class Fault extends Error {
  readonly faults: string[]

  constructor(faults: string[]) {
    super(faults.join('; '))
    this.faults = faults
  }
}

/** Sends some requests of one operation, and shrinks each request with a wrong answer. */
async function probe({ operation, seed, judge, known, tally, port, isNew, isValidOnly = false }: ProbeOptions): Promise<Violation | null> {
  const valid = validRequest({ operation, judge, known })
  const mutated = fc.tuple(valid, mutationsOf(operation, known)).map(([request, mutations]) => mutate(request, mutations))
  let shrinkingRuns = 0
  let smallest: { request: FuzzRequest; faults: string[] } | null = null
  const attempt = async (request: FuzzRequest) => {
    if (smallest !== null && ++shrinkingRuns > SHRINKING_RUNS) return
    const verdict = judge.judge(request)
    const faults = await send(request, { port }).then(
      (answer) => {
        tally.count(operation, verdict, answer.status)
        known.learn(request, answer)
        return checkAnswer(judge, request, verdict, answer)
      },
      (error: unknown) => {
        if (!(error instanceof NoAnswer)) throw error
        return [error.message]
      },
    )
    if (faults.length === 0 || !isNew(faults)) return
    smallest = { request, faults }
    throw new Fault(faults)
  }
  const numRuns = DESTRUCTIVE.test(operation.name) ? DESTRUCTIVE_RUNS : RUNS
  const requests = isValidOnly ? valid : fc.oneof({ arbitrary: valid, weight: 2 }, { arbitrary: mutated, weight: 3 })
  const { failed, errorInstance } = await fc.check(fc.asyncProperty(requests, attempt), { seed, numRuns })
  if (!failed) return null
  // Any other error is a bug of the fuzzer.
  if (!(errorInstance instanceof Fault) || smallest === null) throw errorInstance
  const { request, faults } = smallest as { request: FuzzRequest; faults: string[] }
  return { route: operation.name, faults, request: describeRequest(request) }
}

function indent(text: string): string {
  return text.replaceAll(/^/gm, '    ')
}
